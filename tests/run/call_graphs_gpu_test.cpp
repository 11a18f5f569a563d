// Graphs of calls that come again, of memory that they fill: right in any order, on a GPU.
#include <gtest/gtest.h>

#include "run/call_graphs.h"
#include "skip.h"
#include "stretto/error.h"

namespace stretto::runtime {
namespace {

constexpr size_t kMost = 4;

class CallGraphsOnGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!cuda::why_no_driver().empty()) STRETTO_SKIP(cuda::why_no_driver());
    device_ = std::make_unique<cuda::Device>(0);
    device_->make_current();
    stream_ = std::make_unique<cuda::Stream>();
    memory_ = cuda::DeviceMemory(2 * sizeof(uint32_t));
    graphs_ = std::make_unique<CallGraphs>(kMost);
  }

  // Two fills: the words are then `value` and twice that.
  void call(uint64_t value) {
    graphs_->run(*stream_, {value}, [&](const cuda::Stream& stream) {
      ++enqueued_;
      for (unsigned word = 0; word < 2; ++word) {
        const auto filled = static_cast<unsigned>(value * (word + 1));
        cuda::check(cuda::driver().fill_words(memory_.address() + word * sizeof(uint32_t), filled,
                                              1, stream.handle()),
                    "fill");
      }
    });
  }

  std::vector<uint32_t> words() {
    stream_->synchronize();
    std::vector<uint32_t> words(2);
    memory_.download(words.data(), 2 * sizeof(uint32_t));
    return words;
  }

  std::unique_ptr<cuda::Device> device_;
  std::unique_ptr<cuda::Stream> stream_;
  cuda::DeviceMemory memory_;
  std::unique_ptr<CallGraphs> graphs_;
  int enqueued_ = 0;
};

TEST_F(CallGraphsOnGpu, ACallThatComesAgainIsCapturedOnce) {
  for (int round = 0; round < 5; ++round) {
    for (uint32_t value = 1; value <= kMost; ++value) {
      call(value);
      EXPECT_EQ(words(), (std::vector<uint32_t>{value, 2 * value})) << "round " << round;
    }
    EXPECT_EQ(graphs_->num_graphs(), round == 0 ? 0 : kMost);
  }
  EXPECT_EQ(enqueued_, 2 * static_cast<int>(kMost));
}

TEST_F(CallGraphsOnGpu, MoreCallsThanThereIsRoomForAreRight) {
  for (uint32_t step = 1; step < 7; ++step) {
    for (uint32_t i = 0; i < 60; ++i) {
      const uint32_t value = 1 + i * step % 7;
      call(value);
      call(value);
      ASSERT_EQ(words(), (std::vector<uint32_t>{value, 2 * value}));
    }
  }
  EXPECT_LE(graphs_->num_graphs(), kMost);
}

// Nobody waits for the GPU before a graph makes way.
TEST_F(CallGraphsOnGpu, CallsThatAreUnderWayKeepWhatTheyDo) {
  constexpr size_t kCalls = 300, kWord = sizeof(uint32_t);
  const cuda::DeviceMemory seen(kCalls * kWord);
  std::vector<uint32_t> expected, found(kCalls);
  for (size_t i = 0; i < kCalls; ++i) {
    expected.push_back(static_cast<uint32_t>(1 + i / 3 * 5 % 11));
    call(expected.back());
    cuda::check(cuda::driver().copy_async(seen.address() + i * kWord, memory_.address(), kWord,
                                          stream_->handle()),
                "copy");
  }
  stream_->synchronize();
  seen.download(found.data(), kCalls * kWord);
  EXPECT_EQ(found, expected);
}

TEST_F(CallGraphsOnGpu, ACallThatIsRefusedLeavesTheOthers) {
  call(1);
  const auto refused = [](const cuda::Stream&) { throw UsageError("no"); };
  EXPECT_THROW(graphs_->run(*stream_, {2}, refused), UsageError);
  EXPECT_THROW(graphs_->run(*stream_, {2}, refused), UsageError);  // while it is captured
  call(1);
  call(2);
  EXPECT_EQ(words(), (std::vector<uint32_t>{2, 4}));
}

TEST_F(CallGraphsOnGpu, ACallThatCannotBeCapturedIsEnqueuedAsItIs) {
  int eager = 0;
  const auto only_eager = [&](const cuda::Stream& stream) {
    if (stream.capture()) throw SystemError("not in a graph");
    ++eager;
  };
  for (int i = 0; i < 3; ++i) graphs_->run(*stream_, {9}, only_eager);
  EXPECT_EQ(eager, 3);
  EXPECT_EQ(graphs_->num_graphs(), 0u);
}

}  // namespace
}  // namespace stretto::runtime

// Graphs of calls that come again, or are like others, of memory that they fill: right in any
// order, on a GPU.
#include <gtest/gtest.h>

#include "calls/call_graphs.h"
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
    graphs_ = std::make_unique<CallGraphs>(kMost, room_);
  }

  // Two fills: the words are then `value` and twice that. All are of one kind.
  void call(uint64_t value) {
    graphs_->run(*stream_, {value}, {}, [&](const cuda::Stream& stream) {
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
  CallGraphRoom room_;
  std::unique_ptr<CallGraphs> graphs_;
  int enqueued_ = 0;
};

TEST_F(CallGraphsOnGpu, ACallThatComesAgainIsCapturedOnce) {
  for (int round = 0; round < 5; ++round) {
    for (uint32_t value = 1; value <= kMost; ++value) {
      call(value);
      EXPECT_EQ(words(), (std::vector<uint32_t>{value, 2 * value})) << "round " << round;
    }
    EXPECT_EQ(graphs_->num_graphs(), round < 2 ? 0 : kMost);
  }
  EXPECT_EQ(enqueued_, 3 * static_cast<int>(kMost));
  EXPECT_EQ(room_.count(), kMost);
}

// Where the room is less than what plans call, each that makes way is captured again, the later the
// more often that was for nothing.
TEST_F(CallGraphsOnGpu, ARoomIsSharedByPlans) {
  CallGraphRoom room(3);
  CallGraphs one(kMost, room), other(kMost, room);
  int enqueued = 0;
  for (int round = 0; round < 100; ++round) {
    for (uint32_t value = 1; value <= kMost; ++value) {
      for (CallGraphs* graphs : {&one, &other}) {
        graphs->run(*stream_, {value}, {value}, [&](const cuda::Stream& stream) {
          ++enqueued;
          cuda::check(cuda::driver().fill_words(memory_.address(), value, 2, stream.handle()),
                      "fill");
        });
      }
      ASSERT_EQ(words(), (std::vector<uint32_t>{value, value}));
      ASSERT_LE(one.num_graphs() + other.num_graphs(), 3u);
      ASSERT_EQ(one.num_graphs() + other.num_graphs(), room.count());
    }
  }
  EXPECT_GT(enqueued, 400) << "most of 800 come without a graph";
}

TEST_F(CallGraphsOnGpu, PrioritiesHaveGraphsOfTheirOwn) {
  const cuda::Stream urgent(cuda::Stream::Priority::highest);
  if (urgent.priority() == stream_->priority())
    STRETTO_SKIP("this GPU's streams have one priority");
  int captured_at = 1;
  const auto call = [&](const cuda::Stream& on) {
    graphs_->run(on, {5}, {5}, [&](const cuda::Stream& stream) {
      if (stream.capture()) captured_at = stream.priority();
      cuda::check(cuda::driver().fill_words(memory_.address(), 5, 2, stream.handle()), "fill");
    });
  };
  for (const cuda::Stream* on : {static_cast<const cuda::Stream*>(stream_.get()), &urgent}) {
    for (int i = 0; i < 4; ++i) call(*on);
    on->synchronize();
    EXPECT_EQ(captured_at, on->priority());
  }
  EXPECT_EQ(graphs_->num_graphs(), 2u);
}

TEST_F(CallGraphsOnGpu, MoreCallsThanThereIsRoomForAreRight) {
  for (uint32_t step = 1; step < 7; ++step) {
    for (uint32_t i = 0; i < 60; ++i) {
      const uint32_t value = 1 + i * step % 7;
      for (int call_again = 0; call_again < 4; ++call_again) call(value);
      ASSERT_EQ(words(), (std::vector<uint32_t>{value, 2 * value}));
    }
  }
  EXPECT_LE(graphs_->num_graphs(), kMost + 1);
}

// Nobody waits for the GPU before a graph makes way.
TEST_F(CallGraphsOnGpu, CallsThatAreUnderWayKeepWhatTheyDo) {
  constexpr size_t kCalls = 300, kWord = sizeof(uint32_t);
  const cuda::DeviceMemory seen(kCalls * kWord);
  std::vector<uint32_t> expected, found(kCalls);
  for (size_t i = 0; i < kCalls; ++i) {
    expected.push_back(static_cast<uint32_t>(1 + i / 5 * 5 % 11));
    call(expected.back());
    cuda::check(cuda::driver().copy_async(seen.address() + i * kWord, memory_.address(), kWord,
                                          stream_->handle()),
                "copy");
  }
  stream_->synchronize();
  seen.download(found.data(), kCalls * kWord);
  EXPECT_EQ(found, expected);
}

// The ninth is captured, and so is each one behind it, for the graph of the kind to become it;
// words are read behind every call, while others are under way.
TEST_F(CallGraphsOnGpu, CallsThatNeverComeAgainShareAGraphOfTheirKind) {
  constexpr size_t kCalls = 200, kWord = sizeof(uint32_t);
  const cuda::DeviceMemory seen(kCalls * kWord);
  std::vector<uint32_t> expected, found(kCalls);
  int captured = 0;
  for (uint32_t i = 0; i < kCalls; ++i) {
    expected.push_back(1000 + i);
    graphs_->run(*stream_, {i}, {i % 2}, [&](const cuda::Stream& stream) {
      captured += stream.capture().has_value();
      cuda::check(cuda::driver().fill_words(memory_.address(), expected.back(), 1, stream.handle()),
                  "fill");
      if (i % 2 != 0) {  // another kind's graph has another node
        cuda::check(cuda::driver().fill_words(memory_.address() + kWord, i, 1, stream.handle()),
                    "fill");
      }
    });
    cuda::check(cuda::driver().copy_async(seen.address() + i * kWord, memory_.address(), kWord,
                                          stream_->handle()),
                "copy");
  }
  stream_->synchronize();
  seen.download(found.data(), kCalls * kWord);
  EXPECT_EQ(found, expected);
  EXPECT_EQ(words()[1], kCalls - 1);
  EXPECT_EQ(captured, static_cast<int>(kCalls) - 2 * 8);
  EXPECT_EQ(graphs_->num_graphs(), 2u);
  EXPECT_EQ(room_.count(), 2u);
}

TEST_F(CallGraphsOnGpu, AKindWhoseCallsAreNotAlikeGoesWithoutAGraph) {
  int captured = 0;
  for (uint32_t i = 1; i <= 60; ++i) {
    graphs_->run(*stream_, {i}, {}, [&](const cuda::Stream& stream) {
      captured += stream.capture().has_value();
      for (unsigned word = 0; word < 1 + i % 2; ++word) {
        cuda::check(cuda::driver().fill_words(memory_.address() + word * sizeof(uint32_t), i, 1,
                                              stream.handle()),
                    "fill");
      }
    });
    ASSERT_EQ(words(), (std::vector<uint32_t>{i, i % 2 != 0 ? i : i - 1}));
  }
  EXPECT_LT(captured, 20);
}

TEST_F(CallGraphsOnGpu, ACallThatIsRefusedLeavesTheOthers) {
  call(1);
  const auto refused = [](const cuda::Stream&) { throw UsageError("no"); };
  // The third while it is captured.
  for (int i = 0; i < 3; ++i) EXPECT_THROW(graphs_->run(*stream_, {2}, {2}, refused), UsageError);
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
  for (int i = 0; i < 5; ++i) graphs_->run(*stream_, {9}, {9}, only_eager);
  EXPECT_EQ(eager, 5);
  EXPECT_EQ(graphs_->num_graphs(), 0u);
}

}  // namespace
}  // namespace stretto::runtime

// Graphs of runs of few rows, of memory that they fill: by any count after any other, on a GPU.
#include <gtest/gtest.h>

#include "run/call_graphs.h"
#include "skip.h"

namespace stretto::runtime {
namespace {

constexpr int64_t kFirst = 3, kMost = 14, kFewAlike = 7;  // more rows are two fills
constexpr int64_t kCounts = kMost - kFirst + 1;

class CallGraphsOnGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!cuda::why_no_driver().empty()) STRETTO_SKIP(cuda::why_no_driver());
    device_ = std::make_unique<cuda::Device>(0);
    device_->make_current();
    stream_ = std::make_unique<cuda::Stream>();
    memory_ = cuda::DeviceMemory(2 * sizeof(uint32_t));
    graphs_ = CallGraphs(*stream_, kFirst, kMost, [&](int64_t rows) {
      fill(0, rows);
      if (rows > kFewAlike) fill(1, 100 * rows);
    });
  }

  void fill(size_t word, int64_t value) {
    cuda::check(cuda::driver().fill_words(memory_.address() + word * sizeof(uint32_t),
                                          static_cast<unsigned>(value), 1, stream_->handle()),
                "fill");
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
  CallGraphs graphs_;
};

TEST_F(CallGraphsOnGpu, LaunchAnyCountAfterAnyOther) {
  for (int64_t step = 1; step < kCounts; ++step) {
    fill(1, 7);
    uint32_t second = 7;
    for (int64_t call = 0, rows = kFirst; call < 3 * kCounts; ++call) {
      ASSERT_TRUE(graphs_.launch(*stream_, rows));
      if (rows > kFewAlike) second = static_cast<uint32_t>(100 * rows);
      ASSERT_EQ(words(), (std::vector<uint32_t>{static_cast<uint32_t>(rows), second})) << rows;
      rows = kFirst + (rows - kFirst + step) % kCounts;
    }
  }
}

TEST_F(CallGraphsOnGpu, CallsThatNobodyWaitedForKeepTheirRows) {
  constexpr size_t kCalls = 200, kWord = sizeof(uint32_t);
  const cuda::DeviceMemory seen(kCalls * kWord);
  std::vector<uint32_t> expected, found(kCalls);
  for (size_t call = 0; call < kCalls; ++call) {
    expected.push_back(static_cast<uint32_t>(kFirst + call * call % kCounts));
    ASSERT_TRUE(graphs_.launch(*stream_, expected.back()));
    cuda::check(cuda::driver().copy_async(seen.address() + call * kWord, memory_.address(), kWord,
                                          stream_->handle()),
                "copy");
  }
  stream_->synchronize();
  seen.download(found.data(), kCalls * kWord);
  EXPECT_EQ(found, expected);
}

TEST_F(CallGraphsOnGpu, HaveNoOtherCounts) {
  fill(0, 1);
  EXPECT_FALSE(graphs_.launch(*stream_, kFirst - 1));
  EXPECT_FALSE(graphs_.launch(*stream_, kMost + 1));
  EXPECT_EQ(words()[0], 1u);
  EXPECT_FALSE(CallGraphs().launch(*stream_, 1));
}

}  // namespace
}  // namespace stretto::runtime

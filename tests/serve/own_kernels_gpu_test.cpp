// Kernels that a program brings: right on every rank, and their mistakes named.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hand_on.h"
#include "run/gpu_plans.h"
#include "stretto/error.h"
#include "stretto/kernels.h"

namespace stretto {
namespace {

using hand_on_example::HandOnArgs;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr uint32_t kCount = 1000;

class OwnKernelsOnGpus : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (const std::string why = runtime::why_not_here(GetParam()); !why.empty()) STRETTO_SKIP(why);
    context_ = std::make_unique<Context>(GetParam());
    heap_ = std::make_unique<SymmetricHeap>(*context_, 1 << 20, 16, 1);
    values_ = heap_->allocate("values", kCount * 4);
    inbox_ = heap_->allocate("inbox", kCount * 4);
    arrived_ = heap_->allocate("arrived", 8);
    sum_ = heap_->allocate("sum", 4);
  }
  void TearDown() override {
    kernel_.reset();
    heap_.reset();
    context_.reset();
  }

  static KernelText text() {
    return {read_kernel(STRETTO_EXAMPLES "/hand_on.h"), "hand_on_example::hand_on<GpuBlock>",
            "hand_on_example::HandOnArgs<GpuBlock>"};
  }
  void compile() { kernel_ = std::make_unique<Kernel>(*heap_, text(), 128); }
  void fill() {
    for (int rank = 0; rank < GetParam(); ++rank) {
      const std::vector<float> own(kCount, static_cast<float>(rank + 1));
      context_->copy_to_gpu(rank, reinterpret_cast<GpuAddress>(heap_->at<float>(rank, values_)),
                            own.data(), kCount * 4);
    }
  }
  void launch(int rank, uint64_t call, int blocks = 1, int threads = 128) {
    kernel_->launch(rank, on_default_streams_ ? nullptr : context_->stream(rank), blocks, threads,
                    HandOnArgs<device::GpuBlock>{heap_->at<const float>(rank, values_),
                                                 heap_->at<float>(rank, inbox_),
                                                 heap_->at<device::uint64>(rank, arrived_),
                                                 heap_->at<float>(rank, sum_), kCount, call});
  }
  void run(int calls) {
    for (int call = 0; call < calls; ++call) {
      for (int rank = 0; rank < GetParam(); ++rank) launch(rank, static_cast<uint64_t>(call));
    }
    heap_->finish();
    for (int rank = 0; rank < GetParam(); ++rank) {
      float sum = 0;
      context_->copy_from_gpu(rank, &sum,
                              reinterpret_cast<GpuAddress>(heap_->at<float>(rank, sum_)), 4);
      const int before = (rank + GetParam() - 1) % GetParam();
      EXPECT_EQ(sum, static_cast<float>(kCount * static_cast<uint32_t>(before + 1)));
    }
  }

  std::unique_ptr<Context> context_;
  std::unique_ptr<SymmetricHeap> heap_;
  std::unique_ptr<Kernel> kernel_;
  size_t values_ = 0, inbox_ = 0, arrived_ = 0, sum_ = 0;
  bool on_default_streams_ = false;
};

TEST_P(OwnKernelsOnGpus, AreRightCallAfterCall) {
  compile();
  fill();
  run(50);
}

TEST_P(OwnKernelsOnGpus, AreWaitedForOnTheDefaultStream) {
  if (cuda::ranks_a_gpu() > 1) STRETTO_SKIP("ranks that share a GPU have one default stream");
  compile();
  fill();
  on_default_streams_ = true;
  run(50);
}

TEST_P(OwnKernelsOnGpus, ARankThatDoesNotComeIsNamedAndTheHeapGoesOn) {
  compile();
  for (int rank = 1; rank < GetParam(); ++rank) launch(rank, 0);
  try {
    heap_->finish();
    ADD_FAILURE() << "ranks came to the end without rank 0";
  } catch (const SystemError& error) {
    EXPECT_THAT(error.what(), HasSubstr("waited 1000 ms"));
  }
  fill();
  run(2);
}

TEST_P(OwnKernelsOnGpus, MistakesAreRefused) {
  const auto refusal = [](const auto& work) -> std::string {
    try {
      work();
    } catch (const UsageError& error) {
      return error.what();
    }
    return "done";
  };
  KernelText wrong = text();
  wrong.source += "\nthis is no C++;\n";
  EXPECT_THAT(refusal([&] { Kernel(*heap_, wrong, 128); }),
              AllOf(HasSubstr("does not compile: "), HasSubstr("error: "), Not(HasSubstr("\n")),
                    Not(HasSubstr("internal"))));
  EXPECT_THAT(refusal([&] { Kernel(*heap_, text(), 100); }), HasSubstr("multiple of 32"));
  for (const int shared_bytes : {-1, 1 << 20}) {
    EXPECT_THAT(refusal([&] { Kernel(*heap_, text(), 128, shared_bytes); }),
                HasSubstr("bytes of shared memory: a block has 0 to "));
  }
  compile();
  EXPECT_THAT(refusal([&] { launch(0, 0, 17); }), HasSubstr("17 blocks"));
  EXPECT_THAT(refusal([&] { launch(0, 0, 1, 256); }), HasSubstr("256 threads"));
  EXPECT_THAT(refusal([&] { launch(GetParam(), 0); }), HasSubstr("is not of this process"));
  EXPECT_THAT(refusal([&] { heap_->allocate("more", 1 << 20); }), HasSubstr("no room"));
}

INSTANTIATE_TEST_SUITE_P(Ranks, OwnKernelsOnGpus, testing::Values(2, 3, 8),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace stretto

// Ranks that share GPUs: what they are refused, and that the blocks of all of them run at once. Run
// with STRETTO_RANKS_A_GPU of 2 to 8.
#include <gmock/gmock.h>

#include "lang_gpu_fixture.h"

namespace stretto::fabric {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class SharedGpuTest : public LangGpuTest {
 protected:
  void SetUp() override {
    if (cuda::ranks_a_gpu() == 1) STRETTO_SKIP("STRETTO_RANKS_A_GPU is not set");
    LangGpuTest::SetUp();
  }
  template <class Work>
  static std::string refusal(const Work& work) {
    try {
      work();
    } catch (const UsageError& error) {
      return error.what();
    }
    return "done";
  }
};

TEST_F(SharedGpuTest, NeighboursHaveOneGpuAndAShareOfItEach) {
  const cuda::Device whole(0);
  EXPECT_EQ(fabric_->device(0).uuid(), fabric_->device(1).uuid());
  EXPECT_EQ(fabric_->device(0).ranks(), fabric_->ranks_a_gpu());
  EXPECT_FALSE(fabric_->device(0).can_overlap());
  EXPECT_LT(fabric_->device(0).num_sms() * fabric_->ranks_a_gpu(), whole.num_sms());
  const Region region = fabric_->allocate(4096, "marks");
  EXPECT_NE(region.local(0), region.local(1));
}

TEST_F(SharedGpuTest, NcclAndOtherMemoryAreRefused) {
  EXPECT_THAT(refusal([&] { fabric_->communicators(); }), HasSubstr("NCCL serves one rank a GPU"));
  for (const Source source : {Source::windows, Source::exported}) {
    EXPECT_THAT(refusal([&] { in_process(2, source); }),
                AllOf(HasSubstr("STRETTO_RANKS_A_GPU"), HasSubstr(std::string(name_of(source)))));
  }
}

TEST_F(SharedGpuTest, MoreBlocksThanARankHasSmsAreRefused) {
  const Kernels kernels =
      compile({"shmem.h", "[](GpuBlock& block, const Vec16&) { Shmem(block).barrier_all_block(); }",
               "Vec16"});
  const int most = fabric_->device(0).num_sms();
  const auto launch_all = [&](int blocks) {
    for (int r = 0; r < ranks_; ++r) {
      fabric_->device(r).make_current();
      kernels[size_t(r)]->launch(*streams_[size_t(r)], blocks, kThreads, group_->world(r), Vec16{});
    }
  };
  launch_all(most);
  EXPECT_EQ(error_of_run(), "");
  EXPECT_THAT(refusal([&] { launch_all(most + 1); }),
              HasSubstr(fmt::format("has {} SMs, so at most as many", most)));
}

// Blocks that fill an SM each, as many as ranks may have, wait until all of all ranks are there.
// How many there were stands in the error. Behind them, as many that need less of an SM do the
// same.
TEST_F(SharedGpuTest, BlocksOfAllRanksRunAtOnceAlsoWithOthersBehindThem) {
  constexpr int kMostThreads = 512, kMoreThanHalfOfAnSm = 120 << 10, kRounds = 4;
  const cuda::LangKernelName name{"shmem.h",
                                  R"([](GpuBlock& block, uint64* const& came) {
    block.sync();
    if (block.thread_idx() != 0) return;
    for (int r = 0; r < block.num_ranks(); ++r) block.signal(came, 1, SignalOp::kAdd, r);
    block.wait_until(came, Compare::kGe, block.num_ranks() * block.num_blocks());
  })",
                                  "uint64*"};
  const Kernels large = compile(name, kMoreThanHalfOfAnSm, kMostThreads);
  const Kernels small = compile(name, 0, kMostThreads);
  const int most = fabric_->device(0).num_sms();
  for (const bool behind : {false, true}) {
    SCOPED_TRACE(behind ? "with others behind them" : "alone");
    const size_t came = group_->allocate("came", 2 * kRounds * 128, 0);
    for (int round = 0; round < kRounds; ++round) {
      for (int r = 0; r < ranks_; ++r) {
        uint64* const word = group_->at<uint64>(r, came) + 32 * round;
        launch(large, r, word, most, kMostThreads);
        if (behind) launch(small, r, word + 16, most, kMostThreads);
      }
      ASSERT_EQ(error_of_run(), "") << "in round " << round;
    }
  }
}

}  // namespace
}  // namespace stretto::fabric

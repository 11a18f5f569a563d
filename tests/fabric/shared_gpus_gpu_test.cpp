// What ranks that share GPUs are refused. Run with STRETTO_RANKS_A_GPU of 2 to 8.
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

}  // namespace
}  // namespace stretto::fabric

// Symmetric regions in one process: every rank finds every rank's memory.
#include <gmock/gmock.h>

#include "fabric/fabric.h"
#include "fabric/run_state.h"
#include "gpu_group.h"
#include "stretto/error.h"

namespace stretto::fabric {
namespace {

using cuda::check;
using cuda::DevicePtr;
using cuda::driver;
using ::testing::HasSubstr;

class RegionGpuTest : public ::testing::TestWithParam<Source> {
 protected:
  void SetUp() override {
    STRETTO_NEED_PLACES(2);
    if (GetParam() != Source::peer) STRETTO_NEED_GPUS(2);
    if (GetParam() == Source::windows && !why_no_windows().empty()) STRETTO_SKIP(why_no_windows());
    fabric_ = in_process(2, GetParam());
  }
  std::unique_ptr<Fabric> fabric_;
};

TEST_P(RegionGpuTest, AWriteThroughOneMappingIsReadThroughAnother) {
  const Region region = fabric_->allocate(4096, "marks");
  for (int viewer = 0; viewer < 2; ++viewer) {
    for (int rank = 0; rank < 2; ++rank) {
      const uint64_t mark = static_cast<uint64_t>(10 * viewer + rank);
      fabric_->device(viewer).make_current();
      cuda::copy_to_gpu(region.address(rank, viewer) + 128, &mark, 8);
      uint64_t seen = 0;
      fabric_->device(rank).make_current();
      cuda::copy_from_gpu(&seen, region.local(rank) + 128, 8);
      EXPECT_EQ(seen, mark);
    }
  }
}

TEST_P(RegionGpuTest, TheTableHoldsTheAddresses) {
  const Region region = fabric_->allocate(100, "table");
  for (int viewer = 0; viewer < 2; ++viewer) {
    DevicePtr addresses[2] = {};
    fabric_->device(viewer).make_current();
    cuda::copy_from_gpu(addresses, region.table(viewer), sizeof(addresses));
    EXPECT_EQ(addresses[0], region.address(0, viewer));
    EXPECT_EQ(addresses[1], region.address(1, viewer));
  }
}

TEST_P(RegionGpuTest, MemoryComesBack) {
  const size_t most = size_t{60} << 30;
  for (int i = 0; i < 4; ++i) fabric_->allocate(most, "large");  // two would not fit
}

TEST_P(RegionGpuTest, TooLargeARegionIsRefusedAndTheFabricGoesOn) {
  try {
    fabric_->allocate(size_t{1} << 42, "activations");
    FAIL() << "4 TiB fit";
  } catch (const SystemError& error) {
    EXPECT_THAT(error.what(), HasSubstr("region activations of 4398046511104 bytes"));
    EXPECT_THAT(error.what(), HasSubstr("do not fit"));
  }
  EXPECT_NE(fabric_->allocate(1 << 20, "small").local(0), 0u);
}

TEST_P(RegionGpuTest, ARunStateStartsClean) {
  RunState state(*fabric_, 3, 1'000'000, "runs");
  EXPECT_FALSE(state.collect().aborted);
  const uint32_t one = 1;
  fabric_->device(1).make_current();
  cuda::copy_to_gpu(state.control(1) + offsetof(device::RunControl, abort), &one, 4);
  EXPECT_TRUE(state.collect().aborted);
  state.reset();
  EXPECT_FALSE(state.collect().aborted);
}

INSTANTIATE_TEST_SUITE_P(Sources, RegionGpuTest,
                         ::testing::Values(Source::peer, Source::windows, Source::exported),
                         [](const auto& tested) { return std::string(name_of(tested.param)); });

}  // namespace
}  // namespace stretto::fabric

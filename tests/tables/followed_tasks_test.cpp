// What follows a product, as a task of the GEMM kernel's table.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch/gemm_choice.h"
#include "launch/plan_fixture.h"
#include "tables/gemm_tasks.h"

namespace stretto::cuda {
namespace {

using device::Follower;
using testing::HasSubstr;

TEST(FollowedTasks, TakeKernelsWithRoomForBothProducts) {
  const Plan plan = parse_plan(R"(stretto-plan 1
operator gemm-rs m=256 n=128 k=128 ranks=2 dtype=bf16
sms 132
end
)");
  GemmNeeds needs;
  needs.rows = 128;
  needs.columns = 96;
  needs.follower = Follower::swiglu;
  needs.bias = true;
  device::GemmConfig config = config_for(plan, needs);
  EXPECT_EQ(config.tile_n, 192);
  EXPECT_EQ(config.follower, Follower::swiglu);
  EXPECT_TRUE(config.bias);
  EXPECT_EQ(why_illegal(config), "");
  EXPECT_EQ(config_for(plan, needs, true).tile_n, 256);
  needs.columns = 112;
  EXPECT_EQ(config_for(plan, needs).tile_n, 224);
  EXPECT_EQ(config_for(plan, needs, true).tile_n, 256);
  needs.grouped = true;
  EXPECT_EQ(config_for(plan, needs).tile_n, 256);
  needs.grouped = false;
  needs.columns = 20;
  EXPECT_EQ(config_for(plan, needs).tile_n, 64);
  needs.columns = 256;
  EXPECT_THAT(why_no_tile(needs, false), HasSubstr("take tile=128x128"));
  needs.follower = Follower::gelu;
  EXPECT_EQ(why_no_tile(needs, false), "");
}

// The second product's weights are rows 64 to 128 of another buffer; `last` stands for what
// follows both.
constexpr const char* kTwoProducts = R"(stretto-plan 1
operator gemm-rs m=256 n=128 k=128 ranks=2 dtype=bf16
sms 132
buffer a bf16 256x64 input
buffer g bf16 128x64 input
buffer u bf16 256x64 input
buffer bias bf16 8x256 input
buffer h bf16 256x64 local
lane 0 compute 0
  gemm #0 a[128:256,0:64] g[64:128,0:64] -> h[0:128,0:64]
  gemm #0 a[128:256,0:64] u[192:256,0:64] -> h[0:128,0:64]
  copy #0 a[0:128,0:64] -> h[128:256,0:64]
end
)";

TEST(FollowedTasks, LoadBothOperandsAndStoreOneResult) {
  const Plan plan = parse_plan(kTwoProducts);
  const Lane& lane = plan.lanes[0];
  const TileSums sums(plan);
  const BufferPlaces places = places_of(plan);
  const std::vector<RankProgram> programs = programs_of(plan);
  const SignalLayout signals(plan, programs, true);
  const TableBasis basis{plan, 0, places, signals, sums, false, 1};
  GemmNeeds needs;
  needs.rows = 128;
  needs.columns = 64;
  needs.follower = Follower::swiglu;
  needs.bias = true;
  GemmLaunch launch;
  launch.config = config_for(plan, needs);
  launch.table.follows.resize(1);
  GemmTasks gemms(basis, launch);
  const Region bias{2, 3, 64, 128, 3, 0};
  std::vector<device::GemmTask> tasks;
  FollowedBy followed;
  followed.other = 1;
  followed.bias[1] = &bias;
  followed.last = &lane.instrs[2];
  gemms.add(0, 0, {}, tasks, followed);
  gemms.finish();

  ASSERT_EQ(tasks.size(), 1u);
  EXPECT_EQ(tasks[0].b_row, 64);
  ASSERT_EQ(launch.table.follows[0].size(), 1u);
  const device::GemmFollow& follow = launch.table.follows[0][0];
  EXPECT_EQ(follow.b_row, 192);
  EXPECT_NE(follow.b_map, tasks[0].b_map);
  EXPECT_EQ(launch.maps[follow.b_map].use, MapSpec::Use::b);
  EXPECT_EQ(launch.maps[follow.b_map].matrix.rows, 256);
  EXPECT_EQ(follow.bias[0], 0u);
  EXPECT_EQ(follow.bias[1], basis.address(bias, 0) + (2 * 256 + 64) * 2);
  EXPECT_EQ(follow.bias_columns, 64);
  ASSERT_EQ(launch.table.destinations.size(), 1u);
  EXPECT_EQ(launch.table.destinations[0].row, 128);
}

}  // namespace
}  // namespace stretto::cuda

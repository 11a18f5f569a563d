// What follows products in registers: which tiles have what, and what keeps them from it.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "launch/gemm_choice.h"
#include "launch/tile_sums.h"
#include "stretto/lower.h"
#include "stretto/machine.h"
#include "stretto/schedule.h"

namespace stretto::cuda {
namespace {

using device::Follower;

constexpr const char* kHead = R"(stretto-plan 1
operator gemm-rs m=128 n=64 k=128 ranks=1 dtype=bf16
sms 132
buffer a bf16 128x128 input
buffer bg bf16 64x128 input
buffer bu bf16 64x128 input
buffer row bf16 1x64 input
buffer g fp32 128x64 local
buffer u fp32 128x64 local
buffer q fp32 128x64 local
buffer ranges fp32 256x64 local
buffer y bf16 128x64 output
buffer z bf16 128x64 output
signals s 1
lane 0 compute 0
)";
constexpr const char* kG = "  gemm #0 a[0:128,0:128] bg[0:64,0:128] -> g[0:128,0:64]\n";
constexpr const char* kU = "  gemm #0 a[0:128,0:128] bu[0:64,0:128] -> u[0:128,0:64]\n";
constexpr const char* kSwiglu = "  swiglu #0 g[0:128,0:64] u[0:128,0:64] -> y[0:128,0:64]\n";
constexpr const char* kGelu = "  gelu #0 g[0:128,0:64] -> y[0:128,0:64]\n";

Plan plan_with(const std::string& lane) { return parse_plan(kHead + lane + "end\n"); }

TEST(Followers, TwoProductsMakeUpASwiglu) {
  const Plan plan = plan_with(std::string(kG) + "  wait s.0 >= 1\n" + kU + kSwiglu);
  const TileSums sums(plan);
  const FollowedTile* const tile = sums.followed_from(0, 0);
  ASSERT_NE(tile, nullptr);
  EXPECT_EQ(tile->activation, Opcode::swiglu);
  EXPECT_EQ(tile->product, 0u);
  EXPECT_EQ(tile->other, 2u);
  EXPECT_EQ(tile->last, 3u);
  EXPECT_FALSE(tile->has_bias());
  EXPECT_EQ(sums.followed_at(0, 2), tile);
  EXPECT_EQ(sums.followed_from(0, 2), nullptr);
  EXPECT_TRUE(sums.needs_no_memory(*plan.find_buffer("g")));
  EXPECT_TRUE(sums.needs_no_memory(*plan.find_buffer("u")));
  EXPECT_FALSE(sums.needs_no_memory(*plan.find_buffer("y")));
  EXPECT_FALSE(sums.needs_no_memory(*plan.find_buffer("row")));
  ASSERT_EQ(sums.needs().size(), 1u);
  EXPECT_EQ(sums.needs()[0].follower, Follower::swiglu);
  EXPECT_EQ(sums.needs()[0].columns, 64);
  EXPECT_EQ(sums.needs()[0].stored, DType::bf16);
}

TEST(Followers, TheProductThatGoesThroughTheActivationMayComeSecond) {
  const Plan plan = plan_with(std::string(kU) + kG + kSwiglu);
  const TileSums sums(plan);
  const FollowedTile* const tile = sums.followed_from(0, 0);
  ASSERT_NE(tile, nullptr);
  EXPECT_EQ(tile->product, 1u);
  EXPECT_EQ(tile->other, 0u);
  EXPECT_EQ(tile->last_gemm(), 1u);
}

TEST(Followers, BiasStandsBeforeTheActivationOrAlone) {
  const std::string bias = "  bias #0 g[0:128,0:64] row[0:1,0:64] -> ";
  const Plan both = plan_with(kG + bias +
                              "q[0:128,0:64]\n  gelu #0 q[0:128,0:64] -> "
                              "y[0:128,0:64]\n");
  const TileSums sums(both);
  const FollowedTile* const tile = sums.followed_from(0, 0);
  ASSERT_NE(tile, nullptr);
  EXPECT_EQ(tile->activation, Opcode::gelu);
  EXPECT_EQ(tile->bias[0], 1u);
  EXPECT_EQ(tile->last, 2u);
  EXPECT_TRUE(sums.needs()[0].bias);
  EXPECT_TRUE(sums.needs_no_memory(*both.find_buffer("q")));

  const Plan alone = plan_with(kG + bias + "y[0:128,0:64]\n");
  const TileSums of_bias(alone);
  ASSERT_NE(of_bias.followed_from(0, 0), nullptr);
  EXPECT_EQ(of_bias.needs()[0].follower, Follower::none);
  EXPECT_TRUE(of_bias.needs()[0].bias);
}

TEST(Followers, ASumOverRangesOfKIsFollowed) {
  const Plan plan = plan_with(
      "  gemm #0 a[0:128,0:64] bg[0:64,0:64] -> ranges[0:128,0:64]\n"
      "  gemm #0 a[0:128,64:128] bg[0:64,64:128] -> ranges[128:256,0:64]\n"
      "  reduce #0 ranges[0:128,0:64] ranges[128:256,0:64] -> g[0:128,0:64]\n" +
      std::string(kGelu));
  const TileSums sums(plan);
  EXPECT_EQ(sums.of(0, 1).of_ranges, 2u);
  const FollowedTile* const tile = sums.followed_from(0, 1);
  ASSERT_NE(tile, nullptr);
  EXPECT_EQ(tile->product, 1u);
  EXPECT_EQ(tile->made, 2u);
  EXPECT_EQ(tile->last, 3u);
  EXPECT_TRUE(sums.needs()[0].phases);
  EXPECT_EQ(sums.needs()[0].follower, Follower::gelu);
}

// Rows of 48 columns are stored 16 at a time, in boxes that begin at multiples of 128 bytes: behind
// a box of two rows none can begin.
TEST(Followers, TilesThatEndWithThreeRowsStoreMoreColumnsAtOnce) {
  const auto columns_of = [](const char* rows) {
    const Operator op =
        parse_operator(fmt::format("mlp m={} h=512 f=384 ranks=4 dtype=bf16", rows));
    const Machine machine = default_machine(4);
    const Plan plan =
        lower(op, parse_schedules("up:tiles,tile=128x96/down:tiles", op, machine), machine);
    const TileSums sums(plan);
    return layout_of(config_for(plan, sums.needs().front())).stored_columns;
  };
  EXPECT_EQ(columns_of("1000"), 48);  // a rank's 250 rows end with 122
  EXPECT_EQ(columns_of("1003"), 64);  // 251 with 123, but for the last rank's
  EXPECT_EQ(columns_of("1024"), 48);
}

TEST(Followers, WhatOthersTouchIsNoTilesOwn) {
  const auto follows = [](const std::string& lane) {
    return TileSums(plan_with(lane)).followed_from(0, 0) != nullptr;
  };
  const std::string gelu = std::string(kG) + kGelu, swiglu = std::string(kG) + kU + kSwiglu;
  EXPECT_TRUE(follows(gelu));
  EXPECT_TRUE(follows(swiglu));
  // Somebody else reads the product, or a part of its buffer that another task fills.
  EXPECT_FALSE(follows(gelu + "  copy g[0:128,0:64] -> z[0:128,0:64]\n"));
  EXPECT_FALSE(follows("  copy a[0:128,0:64] -> g[0:128,0:64]\n" + gelu) &&
               follows(gelu + "  copy a[0:128,0:64] -> g[0:128,0:64]\n"));
  // Something stands between, or it is another tile.
  EXPECT_FALSE(follows(std::string(kG) + "  notify s.0@0 += 1\n" + kGelu));
  EXPECT_FALSE(follows(std::string(kG) + "  notify s.0@0 += 1\n" + kU + kSwiglu));
  EXPECT_FALSE(follows(std::string(kG) + "  gelu #0 g[0:64,0:64] -> y[0:64,0:64]\n"));
  EXPECT_FALSE(follows(std::string(kG) +
                       "  gemm #0 a[0:128,0:64] bu[0:64,0:64] -> u[0:128,0:64]\n" + kSwiglu));
  // Its columns would be two rows of B's.
  EXPECT_FALSE(follows(std::string(kG) + kU));
}

}  // namespace
}  // namespace stretto::cuda

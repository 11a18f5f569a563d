// What lanes do behind their last tile is a kernel of its own, which starts when all tiles are
// done.
#include <gtest/gtest.h>

#include "hand_plan.h"
#include "sim/rank_kernels.h"
#include "stretto/lower.h"
#include "stretto/simulate.h"

namespace stretto {
namespace {

using testing_sim::HandPlan;
using testing_sim::round_machine;

constexpr double kLaunch = 3, kExact = 1e-3;

Machine machine() {
  Machine machine = round_machine();
  machine.launch_us = kLaunch;
  machine.block_hbm_gb_per_s = machine.hbm_gb_per_s = 1e9;
  return machine;
}

bool any_movers(const Plan& plan) {
  const sim::RankKernels kernels(plan);
  bool any = false;
  for (uint32_t lane = 0; lane < plan.lanes.size(); ++lane) {
    any = any || !kernels.ends(lane).empty();
  }
  return any;
}

Region half(Region region) {
  region.row1 -= region.rows() / 2;
  return region;
}

// A lane of one tile and a sum, and one of `tiles` tiles.
Plan with_sum(int tiles, int sum_of, bool tells = false) {
  HandPlan hand(1);
  hand.signals("s", 1);
  const int lane = hand.lane(0, LaneKind::compute);
  hand.gemm(lane, 0);
  if (tells) hand.notify(lane, 0, 0);
  hand.task(lane, Opcode::reduce, {hand.part(0, sum_of), hand.part(0, 9)}, {hand.slots(0, 0)});
  const int other = hand.lane(0, LaneKind::compute);
  for (int i = 0; i < tiles; ++i) hand.gemm(other, 1 + i);
  return hand.plan();
}

TEST(MoverKernels, AreWaitedForFromTheEndOfALanesOwnTiles) {
  const Simulation simulation = simulate(with_sum(3, 5), machine());
  EXPECT_NEAR(simulation.lanes.at(0).waiting_us, 2 * 10 + kLaunch, kExact);
  EXPECT_NEAR(simulation.lanes.at(1).waiting_us, kLaunch, kExact);
}

TEST(MoverKernels, StartBehindAllTilesOfTheRank) {
  const Plan plan = with_sum(3, 5, true);
  const sim::RankKernels kernels(plan);
  EXPECT_EQ(kernels.ends(0), std::vector<uint32_t>{2});  // behind the notify
  EXPECT_EQ(kernels.ends(1), std::vector<uint32_t>{3});
  EXPECT_NEAR(simulate(plan, machine()).total_us, kLaunch + 3 * 10 + kLaunch, kExact);
  EXPECT_NEAR(simulate(with_sum(1, 5), machine()).total_us, kLaunch + 10 + kLaunch, kExact);
}

TEST(MoverKernels, LeaveSumsOfATileToItsLane) {
  const Plan plan = with_sum(3, 0);
  EXPECT_FALSE(any_movers(plan));
  EXPECT_NEAR(simulate(plan, machine()).total_us, 3 * 10, kExact);  // one kernel, chained
}

// The other rows of the tile go elsewhere.
TEST(MoverKernels, LeaveSumsOfAPartOfATileToItsLane) {
  for (const int sum_of : {2, 3}) {
    HandPlan hand(1);
    hand.signals("s", 1);
    const int lane = hand.lane(0, LaneKind::compute);
    hand.gemm(lane, 0, {half(hand.part(0, 1)), half(hand.part(0, 2))});
    hand.notify(lane, 0, 0);
    hand.task(lane, Opcode::reduce, {half(hand.part(0, sum_of)), half(hand.part(0, 9))},
              {half(hand.slots(0, 0))});
    EXPECT_EQ(any_movers(hand.plan()), sum_of == 3);
  }
}

TEST(MoverKernels, AreOnePerStretchThatHasTilesToo) {
  HandPlan hand(1);
  for (int i = 0; i < 2; ++i) {
    const int lane = hand.lane(0, LaneKind::compute);
    hand.gemm(lane, i);
    hand.boundary(lane, 0);
    hand.copy(lane, hand.part(0, i), {hand.slots(0, i)});
    hand.boundary(lane, 1);
    hand.gemm(lane, 2 + i);
    if (i == 0) hand.copy(lane, hand.part(0, 3), {hand.slots(0, 3)});
  }
  const Plan plan = hand.plan();
  const sim::RankKernels kernels(plan);
  EXPECT_EQ(kernels.ends(0), std::vector<uint32_t>{5});
  EXPECT_EQ(kernels.ends(1), std::vector<uint32_t>{5});
  EXPECT_NEAR(simulate(plan, machine()).total_us, 4 * kLaunch + 2 * 10, kExact);
}

// As lanes say, it ends, whatever kernels would do.
TEST(MoverKernels, MayBeAwaitedByTilesOfTheirRank) {
  HandPlan hand(1);
  hand.signals("s", 1);
  const int lane = hand.lane(0, LaneKind::compute);
  hand.gemm(lane, 0);
  hand.copy(lane, hand.part(0, 4), {hand.slots(0, 4)});
  hand.notify(lane, 0, 0);
  const int other = hand.lane(0, LaneKind::compute);
  hand.wait(other, 0, 1);
  hand.gemm(other, 1);
  EXPECT_NEAR(simulate(hand.plan(), machine()).total_us, kLaunch + 10 + 10, kExact);
}

TEST(MoverKernels, AreNoneWhereALibraryMultiplies) {
  Plan plan = with_sum(3, 5);
  plan.library_gemms = true;
  EXPECT_FALSE(any_movers(plan));
}

// Rows that the blocks of tiles norm begin while others' tiles are on their way.
TEST(MoverKernels, AreNoneWhereBlocksOfTilesNormTheRows) {
  const Operator op = parse_operator("gemm-ar-norm m=512 n=8192 k=8192 ranks=2 dtype=bf16");
  const Machine machine = default_machine(2);
  const auto plan_of = [&](const std::string& text) {
    return lower(op,
                 parse_schedules("tiles,tile=128x128,mover=epilogue,comm-sms=0,sync=flag" + text,
                                 op, machine),
                 machine);
  };
  const Plan apart = plan_of(""), together = plan_of("/out:mover=epilogue");
  EXPECT_FALSE(any_movers(together));
  EXPECT_LT(simulate(together, machine).total_us, simulate(apart, machine).total_us);
}

}  // namespace
}  // namespace stretto

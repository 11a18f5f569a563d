// Times of tiles and launches in small plans, worked out on paper.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "hand_plan.h"
#include "sim/calibration.h"
#include "stretto/simulate.h"

namespace stretto {
namespace {

using testing_sim::HandPlan;
using testing_sim::round_machine;

constexpr double kExact = 1e-6;  // us

TEST(SimulateGemm, OneLaneRunsItsTilesOneAfterTheOther) {
  HandPlan hand(1);
  const int lane = hand.lane(0, LaneKind::compute);
  for (int tile = 0; tile < 5; ++tile) hand.gemm(lane, tile);
  const Simulation result = simulate(hand.plan(), round_machine());
  EXPECT_NEAR(result.total_us, 50, kExact);
  EXPECT_NEAR(result.compute_us, 10, kExact);  // five SMs at once
  EXPECT_NEAR(result.exposed_us, 40, kExact);
  EXPECT_NEAR(result.compute_occupancy, 1, kExact);
  EXPECT_EQ(result.communication_us, 0);
  EXPECT_EQ(result.spans.size(), 5u);
}

TEST(SimulateGemm, LanesRunAtOnceAndPayLaunchAndOverhead) {
  HandPlan hand(1);
  for (int i = 0; i < 8; ++i) {
    const int lane = hand.lane(0, LaneKind::compute);
    hand.gemm(lane, 2 * i);
    hand.gemm(lane, 2 * i + 1);
  }
  Machine machine = round_machine();
  machine.chained_launch_us = 3;
  machine.tile_overhead_us = 0.5;
  const Simulation result = simulate(hand.plan(), machine);
  EXPECT_NEAR(result.total_us, 3 + 2 * 10.5, kExact);
  EXPECT_NEAR(result.compute_us, result.total_us, kExact);
  EXPECT_EQ(result.exposed_us, 0);
}

// A lane of each kind on a rank, at work for 10 us or less.
TEST(SimulateLaunch, IsShorterWhereARunIsOneKernel) {
  Machine machine = round_machine();
  machine.launch_us = 5;
  machine.chained_launch_us = 3;
  const auto start_us = [&](const auto& add_lane) {
    HandPlan hand(1);
    hand.gemm(hand.lane(0, LaneKind::compute), 0);
    add_lane(hand);
    return simulate(hand.plan(), machine).total_us - 10;
  };
  EXPECT_NEAR(start_us([](HandPlan&) {}), 3, kExact);
  EXPECT_NEAR(start_us([](HandPlan& hand) {
                const int lane = hand.lane(0, LaneKind::comm);
                hand.copy(lane, hand.part(0, 4), {hand.slots(0, 4)});
              }),
              3, kExact);
  EXPECT_NEAR(start_us([](HandPlan& hand) {
                const int lane = hand.lane(0, LaneKind::comm);
                hand.task(lane, Opcode::reduce, {hand.part(0, 4)}, {hand.slots(0, 4)});
              }),
              5, kExact);
  EXPECT_NEAR(start_us([](HandPlan& hand) {
                const int lane = hand.lane(0, LaneKind::copy);
                hand.copy(lane, hand.part(0, 4), {hand.slots(0, 4)});
              }),
              5, kExact);
}

TEST(SimulateGemm, ARaggedTileCostsItsPaddedShape) {
  HandPlan hand(1);
  const int lane = hand.lane(0, LaneKind::compute);
  hand.gemm(lane, 0);
  Plan plan = hand.plan();
  plan.operands[0].row1 = 65;  // of A: two groups of 64 rows
  plan.operands[2].row1 = 65;
  EXPECT_NEAR(simulate(plan, round_machine()).total_us, 10, kExact);
  plan.operands[0].row1 = plan.operands[2].row1 = 3;
  EXPECT_NEAR(simulate(plan, round_machine()).total_us, 5, kExact);
}

TEST(SimulateGemm, SmallTilesWaitForTheirInputsWhereAllSmsRunThem) {
  const auto time_us = [](int lanes) {
    HandPlan hand(1);
    for (int i = 0; i < lanes; ++i) hand.gemm(hand.lane(0, LaneKind::compute), i);
    Plan plan = hand.plan();
    for (size_t i = 0; i < plan.operands.size(); i += 3) {
      plan.operands[i].row1 = plan.operands[i].row0 + 64;  // of A
      plan.operands[i + 2].row1 = plan.operands[i + 2].row0 + 64;
    }
    return simulate(plan, round_machine()).total_us;
  };
  const double half_tile = 5;  // of its MMAs alone
  EXPECT_NEAR(time_us(1), half_tile, kExact);
  EXPECT_GT(time_us(8), 1.2 * half_tile);
}

TEST(SimulateGemm, PowerHoldsLongRunsBack) {
  const auto time_us = [](int tiles) {
    HandPlan hand(1);
    for (int i = 0; i < 8; ++i) {
      const int lane = hand.lane(0, LaneKind::compute);
      for (int tile = 0; tile < tiles; ++tile) hand.gemm(lane, i);
    }
    return simulate(hand.plan(), round_machine()).total_us;
  };
  EXPECT_NEAR(time_us(5), 50, kExact);
  EXPECT_NEAR(time_us(15), 150 / 0.87, 1e-3);
  EXPECT_GT(time_us(190), 1900 / 0.87);
}

TEST(SimulateGemm, ATileTakesItsShareOfReadingTheInputs) {
  HandPlan hand(1);
  for (int i = 0; i < 4; ++i) hand.gemm(hand.lane(0, LaneKind::compute), i);
  Machine machine = round_machine();
  machine.hbm_gb_per_s = 40;
  // Four blocks of rows of A, one B that they share, at what tiles reach of 40 GB/s in all.
  const double bytes = 2.0 * testing_sim::kDepth * (4 * testing_sim::kTileM + testing_sim::kTileN);
  EXPECT_NEAR(simulate(hand.plan(), machine).total_us, bytes / (sim::kStreamOfAll * 40e3), kExact);
  // However fast its SM and memory are, each 128 bytes of K take their time.
  machine.hbm_gb_per_s = 1e6;
  machine.gemm_tflops *= 1e3;
  EXPECT_NEAR(simulate(hand.plan(), machine).total_us, testing_sim::kDepth / 64 * sim::kStageUs,
              kExact);
}

TEST(SimulateGemm, ATileThatTwoLimitsHoldAlikeReachesNeither) {
  HandPlan hand(1);
  for (int i = 0; i < 4; ++i) hand.gemm(hand.lane(0, LaneKind::compute), i);
  const double bytes = 2.0 * testing_sim::kDepth * (4 * testing_sim::kTileM + testing_sim::kTileN);
  const auto with_inputs_of = [&](double us) {
    Machine machine = round_machine();
    machine.hbm_gb_per_s = bytes / (sim::kStreamOfAll * us * 1e3);
    return simulate(hand.plan(), machine).total_us;
  };
  EXPECT_NEAR(with_inputs_of(5), 10, kExact);
  EXPECT_NEAR(with_inputs_of(10), 10 * (1 + sim::kBothLimits), kExact);
  EXPECT_NEAR(with_inputs_of(20), 20, kExact);
}

// Tiles of a gather whose blocks of B are 25 MB a wave, more than half of the L2 cache holds.
Simulation gather_of_two_lanes(const std::string& first, const std::string& second) {
  Machine machine = round_machine();
  machine.gemm_tflops *= 100;
  machine.hbm_gb_per_s = 1e6;
  return simulate(parse_plan(fmt::format(R"(stretto-plan 1
operator ag-gemm m=512 n=12288 k=2048 ranks=1 dtype=bf16
sms 8
buffer a bf16 512x2048 input
buffer b bf16 12288x2048 input
buffer out bf16 512x12288 output
signals done 1
lane 0 compute 0
{}lane 0 compute 1
{}end
)",
                                         first, second)),
                  machine);
}

std::string wide_tile(int tile) {
  return fmt::format("  gemm #{0} a[{1}:{2},0:2048] b[0:3072,0:2048] -> out[{1}:{2},0:3072]\n",
                     tile, 64 * tile, 64 * (tile + 1));
}

TEST(SimulateGemm, ATileThatBeginsBehindItsWaveReadsBAnew) {
  const double tile_us = gather_of_two_lanes(wide_tile(0), wide_tile(1)).total_us;
  const Simulation late = gather_of_two_lanes(wide_tile(0) + "  notify done.0@0 += 1\n",
                                              "  wait done.0 >= 1\n" + wide_tile(1));
  EXPECT_NEAR(late.total_us, (2 + sim::kReadAnew) * tile_us, kExact);
}

TEST(SimulateGemm, EveryKernelBeginsWithAWave) {
  const double tile_us = gather_of_two_lanes(wide_tile(0), wide_tile(1)).total_us;
  const std::string end = "  boundary 0\n";
  const Simulation uneven = gather_of_two_lanes(wide_tile(0) + wide_tile(1) + end + wide_tile(2),
                                                wide_tile(3) + end + wide_tile(4));
  EXPECT_NEAR(uneven.total_us, 3 * tile_us, kExact);
}

TEST(SimulateBoundary, JoinsTheLanesOfARankAndLaunchesWhatFollows) {
  HandPlan hand(2);
  for (int i = 0; i < 2; ++i) {
    const int lane = hand.lane(0, LaneKind::compute);
    for (int tile = 0; tile <= i; ++tile) hand.gemm(lane, 4 * i + tile);
    hand.boundary(lane, 0);
    hand.gemm(lane, 4 * i + 3);
    hand.boundary(lane, 1);
  }
  hand.gemm(hand.lane(1, LaneKind::compute), 0);
  Machine machine = round_machine();
  machine.chained_launch_us = 3;  // of kernels of ours alone, each of which starts early
  machine.launch_us = 4;
  const Simulation result = simulate(hand.plan(), machine);
  // The last boundary launches nothing; the other rank does not take part.
  EXPECT_NEAR(result.total_us, 3 + 20 + 3 + 10, kExact);
  EXPECT_NEAR(result.lanes[0].waiting_us, 10 + 3, kExact);
  EXPECT_NEAR(result.lanes[2].busy_us, 10, kExact);
}

TEST(SimulateInterference, SlowsTilesInProportionToThePortsUse) {
  Machine machine = round_machine();
  machine.gemm_slowdown_copy_engine = 1.5;
  HandPlan hand(2);
  hand.gemm(hand.lane(0, LaneKind::compute), 0);
  hand.copy(hand.lane(0, LaneKind::copy), hand.part(0, 0, 32), {hand.slots(1, 0, 32)});
  hand.gemm(hand.lane(1, LaneKind::compute), 0);
  const Simulation result = simulate(hand.plan(), machine);
  // The copy moves 80 GB/s through a port of 160, one way: 1 + 0.5 / 2 for half of the time.
  for (const LaneUse& lane : {result.lanes[0], result.lanes[2]}) {
    EXPECT_GT(lane.busy_us, 10 * 1.10);
    EXPECT_LT(lane.busy_us, 10 * 1.15);
  }
}

}  // namespace
}  // namespace stretto

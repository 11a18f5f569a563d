// Times of tiles whose epilogues store to peers, in small plans, worked out on paper.
#include <gtest/gtest.h>

#include <vector>

#include "hand_plan.h"
#include "sim/calibration.h"
#include "stretto/simulate.h"

namespace stretto {
namespace {

using testing_sim::HandPlan;
using testing_sim::kTileBytes;
using testing_sim::round_machine;

constexpr double kExact = 1e-6;  // us

// While an epilogue's store takes the port one way, tiles take a quarter longer.
constexpr double kLostToStore = kTileBytes / 160e3 * (1 - 1 / 1.25);

TEST(SimulateEpilogue, StoresBesideTheNextTile) {
  HandPlan hand(2);
  hand.signals("s", 1);
  const int lane = hand.lane(0, LaneKind::compute);
  for (int tile = 0; tile < 3; ++tile) hand.gemm(lane, tile, {hand.slots(1, tile)});
  hand.notify(lane, 0, 1);
  const Simulation result = simulate(hand.plan(), round_machine());
  const double store = kTileBytes / 10e3;  // 6.55 us, less than a tile
  EXPECT_NEAR(result.total_us, 30 + 2 * kLostToStore + store, kExact);
}

TEST(SimulateEpilogue, StoresRowsOfSeveralRanksBoxByBox) {
  const HandPlan places(3);
  const auto store_us = [](Region upper, Region lower) {
    HandPlan hand(3);
    hand.signals("s", 1);
    const int lane = hand.lane(0, LaneKind::compute);
    hand.gemm(lane, 0, {upper, lower});
    hand.notify(lane, 0, 1);
    return simulate(hand.plan(), round_machine()).total_us - 10;
  };
  Region upper = places.slots(1, 0), lower = places.slots(2, 0);
  EXPECT_NEAR(store_us(upper, lower), 2 * kTileBytes / 10e3, kExact);  // all rows to both
  upper.row1 = 50;
  lower.row1 = testing_sim::kTileM - 50;
  EXPECT_NEAR(store_us(upper, lower),
              kTileBytes / 10e3 + sim::kStoreOfPartsUs + 2 * sim::kStoreOfPartUs, kExact);
}

TEST(SimulateEpilogue, TilesOfAKernelThatStoresPartsAreMultiplesOf64Columns) {
  const auto tile_us = [](bool has_parts, int columns) {
    HandPlan hand(3);
    const int lane = hand.lane(0, LaneKind::compute);
    Region all = hand.part(0, 0), upper = all, lower = all;
    upper.row1 = lower.row0 = 50;
    hand.gemm(lane, 0, has_parts ? std::vector{upper, lower} : std::vector{all});
    Plan plan = hand.plan();
    plan.operands[1].row1 = columns;  // of B
    for (size_t i = 2; i < plan.operands.size(); ++i) plan.operands[i].col1 = columns;
    return simulate(plan, round_machine()).total_us;
  };
  EXPECT_NEAR(tile_us(false, 160), 10 * 160.0 / 256, kExact);
  EXPECT_NEAR(tile_us(true, 160), 10 * 192.0 / 256, kExact);
  EXPECT_NEAR(tile_us(true, 192), 10 * 192.0 / 256, kExact);
}

TEST(SimulateEpilogue, HoldsTheBlockWhenItsStoresAreTheSlower) {
  HandPlan hand(2);
  const int lane = hand.lane(0, LaneKind::compute);
  for (int tile = 0; tile < 3; ++tile) hand.gemm(lane, tile, {hand.slots(1, tile)});
  Machine machine = round_machine();
  machine.epilogue_push_gb_per_s = 4;  // 16.4 us a tile
  const Simulation result = simulate(hand.plan(), machine);
  EXPECT_NEAR(result.total_us, 10 + 3 * kTileBytes / 4e3, kExact);
  EXPECT_NEAR(result.lanes[0].busy_us, 30 + 2 * kLostToStore, kExact);
  EXPECT_NEAR(result.lanes[0].waiting_us, 2 * (kTileBytes / 4e3 - 10 - kLostToStore), kExact);
}

TEST(SimulateEpilogue, ItsNotifyFollowsItsData) {
  HandPlan hand(2);
  hand.signals("s", 1);
  const int lane = hand.lane(0, LaneKind::compute);
  hand.gemm(lane, 0, {hand.slots(1, 0)});
  hand.notify(lane, 0, 1);
  hand.gemm(lane, 1);
  const int waiter = hand.lane(1, LaneKind::comm);
  hand.wait(waiter, 0, 1);
  const Simulation result = simulate(hand.plan(), round_machine());
  EXPECT_NEAR(result.lanes[1].waiting_us, 10 + kTileBytes / 10e3, kExact);
  EXPECT_NEAR(result.total_us, 20 + kLostToStore, kExact);
}

}  // namespace
}  // namespace stretto

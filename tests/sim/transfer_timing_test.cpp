// Times of copies, signals and collectives in small plans, worked out on paper.
#include <gtest/gtest.h>

#include <cmath>

#include "hand_plan.h"
#include "sim/calibration.h"
#include "stretto/simulate.h"

namespace stretto {
namespace {

using testing_sim::HandPlan;
using testing_sim::kTileBytes;
using testing_sim::round_machine;

constexpr double kExact = 1e-6;  // us

// A rate between a pair's and that of all eight ranks.
double between(double of_pair, double of_all, int peers) {
  return of_pair * std::pow(of_all / of_pair, std::log(peers) / std::log(7));
}

TEST(SimulateCopy, OfOneBlockTakesTheBlocksPushRate) {
  HandPlan hand(2);
  const int lane = hand.lane(0, LaneKind::comm);
  hand.copy(lane, hand.part(0, 0, 8), {hand.slots(1, 0, 8)});
  const Simulation result = simulate(hand.plan(), round_machine());
  EXPECT_NEAR(result.total_us, 8 * kTileBytes / 20e3, kExact);
  EXPECT_NEAR(result.communication_us, result.total_us, kExact);
}

TEST(SimulateCopy, AShortOneHasLandedBeforeItsBlockSendsMore) {
  const auto total_us = [](int blocks) {
    HandPlan hand(2);
    for (int block = 0; block < blocks; ++block) {
      const int lane = hand.lane(0, LaneKind::comm);
      for (int i = 0; i < 4; ++i) hand.copy(lane, hand.part(0, i), {hand.slots(1, 4 * block + i)});
    }
    Machine machine = round_machine();
    machine.link_gb_per_s = 160;
    machine.push_by_blocks.points = {{1, 20}, {4, 40}};
    return simulate(hand.plan(), machine).total_us;
  };
  EXPECT_NEAR(total_us(1), 4 * (kTileBytes / 20e3 + sim::kLandsUs), kExact);
  // While others send what the link takes, nothing is lost.
  EXPECT_NEAR(total_us(4), 4 * kTileBytes / 10e3, kExact);
}

// Tiles on all SMs slow down each block that sends, but not the link that enough of them fill; not
// so beside cuBLAS, which leaves them less together.
TEST(SimulateCopy, BesideTilesABlockIsSlowerAndTheLinkIsNot) {
  const auto sent_us = [](int blocks, bool by_library) {
    HandPlan hand(2);
    for (int i = 0; i < 4; ++i) {
      const int lane = hand.lane(0, LaneKind::compute);
      for (int tile = 0; tile < 8; ++tile) hand.gemm(lane, 8 * i + tile);
    }
    const int first = hand.lane(0, LaneKind::comm);
    for (int block = 1; block < blocks; ++block) hand.lane(0, LaneKind::comm);
    for (int block = 0; block < blocks; ++block) {
      hand.copy(first + block, hand.part(0, 0, 8), {hand.slots(1, 8 * block, 8)});
    }
    Machine machine = round_machine();
    machine.link_gb_per_s = 1000;
    machine.push_by_blocks.points = {{1, 20}, {2, 40}, {4, 44}};
    Plan plan = hand.plan();
    plan.library_gemms = by_library;
    return simulate(plan, machine).lanes[static_cast<size_t>(first)].busy_us;
  };
  const double slower = 1 + sim::kPushBesideGemm;
  EXPECT_NEAR(sent_us(1, false), slower * 8 * kTileBytes / 20e3, kExact);
  EXPECT_NEAR(sent_us(2, false), slower * 8 * kTileBytes / 20e3, kExact);
  EXPECT_NEAR(sent_us(4, false), 8 * kTileBytes / 11e3, kExact);
  EXPECT_NEAR(sent_us(4, true), slower * 8 * kTileBytes / 11e3, kExact);
}

TEST(SimulateCopy, SevenSendersShareTheReceiversPort) {
  HandPlan hand(8);
  for (int rank = 1; rank < 8; ++rank) {
    const int lane = hand.lane(rank, LaneKind::comm);
    hand.copy(lane, hand.part(rank, 0, 8), {hand.slots(0, 8 * (rank - 1), 8)});
  }
  const Simulation result = simulate(hand.plan(), round_machine());
  // 7 blocks of 20 GB/s against a port of 100.
  EXPECT_NEAR(result.total_us, 7 * 8 * kTileBytes / 100e3, 0.05 * result.total_us);
  EXPECT_GE(result.total_us, 7 * 8 * kTileBytes / 100e3 - kExact);
}

TEST(SimulateCopy, ABlockThatStoresToAllPeersUsesThePortForEach) {
  HandPlan hand(4);
  const int lane = hand.lane(0, LaneKind::comm);
  hand.copy(lane, hand.part(0, 0, 4),
            {hand.slots(1, 0, 4), hand.slots(2, 0, 4), hand.slots(3, 0, 4)});
  const Simulation result = simulate(hand.plan(), round_machine());
  EXPECT_NEAR(result.total_us, 3 * 4 * kTileBytes / (1e3 * between(20, 40, 3)), kExact);
}

TEST(SimulateCopy, InOwnMemoryReadsAndWritesAtTheBlocksRate) {
  HandPlan hand(1);
  const int lane = hand.lane(0, LaneKind::comm);
  hand.copy(lane, hand.part(0, 0, 4), {hand.slots(0, 0, 4)});
  EXPECT_NEAR(simulate(hand.plan(), round_machine()).total_us, 2 * 4 * kTileBytes / 400e3, kExact);
}

TEST(SimulateCopy, BlocksShareTheMemory) {
  HandPlan hand(1);
  for (int i = 0; i < 8; ++i) {
    const int lane = hand.lane(0, LaneKind::comm);
    hand.copy(lane, hand.part(0, i), {hand.slots(0, i)});
  }
  const double all = 8 * 2 * kTileBytes / 1000e3;
  const double total = simulate(hand.plan(), round_machine()).total_us;
  EXPECT_NEAR(total, all, kExact);
}

TEST(SimulateCopyEngine, PaysItsLaunchAndSharesOneRateBetweenQueues) {
  Machine machine = round_machine();
  machine.copy_launch_us = 2;
  HandPlan pair(2);
  pair.copy(pair.lane(0, LaneKind::copy), pair.part(0, 0, 8), {pair.slots(1, 0, 8)});
  EXPECT_NEAR(simulate(pair.plan(), machine).total_us, 2 + 8 * kTileBytes / 80e3, kExact);

  HandPlan four(4);
  for (int peer = 1; peer < 3; ++peer) {
    four.copy(four.lane(0, LaneKind::copy), four.part(0, 0, 8), {four.slots(peer, 0, 8)});
  }
  EXPECT_NEAR(simulate(four.plan(), machine).total_us,
              2 + 16 * kTileBytes / (1e3 * between(80, 50, 3)), kExact);
}

TEST(SimulateSignal, TakesItsTimeAndTheReleaseOnlyBetweenRanks) {
  Machine machine = round_machine();
  machine.signal_us = 1;
  machine.release_us = 0.5;
  machine.local_signal_us = 0.25;
  for (const int to : {0, 1}) {
    HandPlan hand(2);
    hand.signals("s", 1);
    const int from = hand.lane(0, LaneKind::compute);
    hand.gemm(from, 0);
    hand.notify(from, 0, to);
    const int waiter = hand.lane(to, LaneKind::comm);
    hand.wait(waiter, 0, 1);
    hand.copy(waiter, hand.part(to, 0, 4), {hand.slots(to, 0, 4)});
    const Simulation result = simulate(hand.plan(), machine);
    const double signal = to == 0 ? 0.25 : 1.5;
    EXPECT_NEAR(result.total_us, 10 + signal + 2 * 4 * kTileBytes / 400e3, kExact);
    EXPECT_NEAR(result.lanes[1].waiting_us, 10 + signal, kExact);
  }
}

TEST(SimulateSignal, ACopyEngineNotifiesByACopy) {
  Machine machine = round_machine();
  machine.copy_launch_us = 2;
  machine.signal_us = 1;
  const auto simulated = [&](bool notifies) {
    HandPlan hand(2);
    hand.signals("s", 1);
    const int from = hand.lane(0, LaneKind::copy);
    hand.copy(from, hand.part(0, 0, 4), {hand.slots(1, 0, 4)});
    if (notifies) hand.notify(from, 0, 1);
    hand.copy(from, hand.part(0, 0, 4), {hand.slots(1, 0, 4)});
    const int waiter = hand.lane(1, LaneKind::comm);
    if (notifies) hand.wait(waiter, 0, 1);
    return simulate(hand.plan(), machine);
  };
  const double without = simulated(false).total_us, copy = without / 2;
  const Simulation result = simulated(true);
  EXPECT_NEAR(result.total_us, without + 2, kExact);
  EXPECT_NEAR(result.lanes[1].waiting_us, copy + 2 + 1, kExact);
}

// Seven blocks of 20 GB/s share the receiver's port, so that a row waits for the pieces of others.
// Its release drains behind the next 48 KB, which come as fast as the block's other copies do.
TEST(SimulateSignal, OfAFewBytesBehindABusyPortDrainsAsFastAsTheBlockSends) {
  HandPlan hand(8);
  hand.signals("s", 1);
  const int waiter = hand.lane(0, LaneKind::comm);
  hand.wait(waiter, 0, 1);
  for (int rank = 1; rank < 8; ++rank) {
    const int lane = hand.lane(rank, LaneKind::comm);
    hand.copy(lane, hand.part(rank, 0, 4), {hand.slots(0, 8 * (rank - 1), 4)});
    if (rank == 1) {
      Region from = hand.part(rank, 4), to = hand.slots(0, 4);
      from.row1 = from.row0 + 1;
      to.row1 = to.row0 + 1;
      hand.copy(lane, from, {to});
      hand.notify(lane, 0, 0);
    }
    hand.copy(lane, hand.part(rank, 5, 2), {hand.slots(0, 8 * (rank - 1) + 5, 2)});
  }
  const double shared = 100e3 / 7;  // bytes a microsecond
  const Simulation result = simulate(hand.plan(), round_machine());
  EXPECT_NEAR(result.lanes[0].waiting_us, (4 + 0.75 + 1) * kTileBytes / shared,
              1.2 * kTileBytes / shared);
}

TEST(SimulateSignal, AWaitOfAnEarlierRunPasses) {
  HandPlan hand(1);
  hand.signals("s", 1);
  const int lane = hand.lane(0, LaneKind::compute);
  hand.wait(lane, 0, 1, 1);
  hand.gemm(lane, 0);
  EXPECT_NEAR(simulate(hand.plan(), round_machine()).total_us, 10, kExact);
}

TEST(SimulateCollective, StartsWithTheLastRankAndLastsByItsBytes) {
  HandPlan hand(2);
  hand.signals("s", 1);
  const int lane = hand.lane(0, LaneKind::compute);
  hand.gemm(lane, 0);
  hand.notify(lane, 0, 0);
  const int first = hand.lane(0, LaneKind::nccl);
  hand.wait(first, 0, 1);
  hand.all_reduce(first, 0, 4);
  const int second = hand.lane(1, LaneKind::nccl);
  hand.all_reduce(second, 0, 4);
  Machine machine = round_machine();
  machine.nccl_launch_us = 7;
  const Simulation result = simulate(hand.plan(), machine);
  const double bytes_out = 2 * 0.5 * 4 * kTileBytes;
  const double start = 7 * sim::kNcclStart[0].few_bytes;  // of two ranks
  EXPECT_NEAR(result.total_us, 10 + start + bytes_out / 50e3, kExact);
  EXPECT_NEAR(result.lanes[2].waiting_us, 10, kExact);
  EXPECT_NEAR(result.communication_us, start + bytes_out / 50e3, kExact);
}

// Which is nccl_launch_us for the eight ranks that it was measured with.
TEST(SimulateCollective, StartsSoonerWithFewRanksAndFewBytes) {
  Machine machine = round_machine();
  machine.nccl_launch_us = 100;
  machine.nccl_by_bytes.points = {{1, 1e9}};
  machine.ranks_per_node = 16;
  const auto start_us = [&](int ranks, int tiles) {
    HandPlan hand(ranks);
    for (int rank = 0; rank < ranks; ++rank) {
      hand.all_reduce(hand.lane(rank, LaneKind::nccl), 0, tiles);
    }
    return simulate(hand.plan(), machine).total_us;
  };
  constexpr double kNear = 1e-2;  // the bytes
  EXPECT_NEAR(start_us(2, 1), 23, kNear);
  EXPECT_NEAR(start_us(2, 64), 68, kNear);
  EXPECT_NEAR(start_us(3, 1), 28.5, kNear);
  EXPECT_NEAR(start_us(6, 1), 67, kNear);
  EXPECT_NEAR(start_us(8, 1), 100, kNear);
  EXPECT_NEAR(start_us(8, 64), 100, kNear);
  EXPECT_NEAR(start_us(16, 1), 100, kNear);
}

TEST(SimulateCollective, TakesSmsFromTilesThatRunBesideIt) {
  HandPlan hand(2);
  for (int i = 0; i < 8; ++i) hand.gemm(hand.lane(0, LaneKind::compute), i);
  hand.all_reduce(hand.lane(0, LaneKind::nccl), 0, 64);
  hand.all_reduce(hand.lane(1, LaneKind::nccl), 0, 64);
  const Simulation result = simulate(hand.plan(), round_machine());
  EXPECT_NEAR(result.lanes[0].busy_us, 10.0 * 8 / 6, kExact);  // 2 of 8 SMs are NCCL's
}

TEST(SimulateNodes, CrossingThemTakesTheNetwork) {
  Machine machine = round_machine();
  machine.nodes = 2;
  machine.ranks_per_node = 2;
  machine.network_gb_per_s = 5;
  machine.network_latency_us = 4;
  HandPlan hand(4);
  hand.copy(hand.lane(0, LaneKind::comm), hand.part(0, 0, 8), {hand.slots(2, 0, 8)});
  EXPECT_NEAR(simulate(hand.plan(), machine).total_us, 4 + 8 * kTileBytes / 5e3, kExact);
}

}  // namespace
}  // namespace stretto

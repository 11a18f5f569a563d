// What phases of K are predicted to bring: the flight of a gather's first rows is hidden, and the
// tiles themselves cost what they cost whole.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "stretto/lower.h"
#include "stretto/simulate.h"

namespace stretto {
namespace {

Simulation simulated(const Segment& op, const std::string& schedule) {
  const Machine machine = default_machine(op.ranks);
  return simulate(lower(op, parse_schedule(schedule, op, machine), machine), machine);
}

TEST(KPhases, OfOneWaveHideMuchOfTheFirstRowsFlight) {
  const Segment op{kAgGemm, 512, 28672, 8192, 4, DType::bf16};
  const std::string tiles = "tiles,tile=128x224,comm-sms=4";  // 128 tiles, a wave
  const Simulation whole = simulated(op, tiles);
  double before = whole.exposed_us;
  for (const int phases : {2, 4, 8}) {
    const Simulation cut = simulated(op, fmt::format("{},k-phases={}", tiles, phases));
    EXPECT_NEAR(cut.compute_us, whole.compute_us, 1e-9) << "ranges stay in registers";
    EXPECT_LT(cut.exposed_us, before);
    before = cut.exposed_us;
  }
  EXPECT_LT(before, 0.6 * whole.exposed_us);
}

TEST(KPhases, BringNothingWhereOwnRowsTakeLongerThanTheFlight) {
  const Segment op{kAgGemm, 4096, 28672, 8192, 4, DType::bf16};
  const double whole = simulated(op, "tiles,tile=128x256,comm-sms=4").total_us;
  EXPECT_NEAR(simulated(op, "tiles,tile=128x256,comm-sms=4,k-phases=4").total_us, whole,
              0.01 * whole);
}

// Behind an all-to-all, each rank's own columns first.
TEST(KPhases, OfSourcesHideMostOfAnAllToAll) {
  const Segment op{kA2aGemm, 4096, 4096, 4096, 2, DType::bf16};
  const std::string tiles = "tiles,tile=128x256,comm-sms=4,k-phases=";
  const Simulation whole = simulated(op, tiles + "1"), by_source = simulated(op, tiles + "2");
  EXPECT_NEAR(by_source.compute_us, whole.compute_us, 0.02 * whole.compute_us);
  EXPECT_LT(by_source.exposed_us, 0.6 * whole.exposed_us);
}

// As a plan of hand may have them.
TEST(KPhases, InAnyOrderTakeTheirTime) {
  const Segment op{kAgGemm, 512, 1024, 8192, 2, DType::bf16};
  const Machine machine = default_machine(op.ranks);
  Plan plan =
      lower(op, parse_schedule("tiles,tile=128x128,k-phases=2,own=gathered", op, machine), machine);
  const double compute_us = simulate(plan, machine).compute_us;
  for (Lane& lane : plan.lanes) {
    if (lane.kind != LaneKind::compute) continue;
    std::vector<size_t> gemms;
    for (size_t i = 0; i < lane.instrs.size(); ++i) {
      if (lane.instrs[i].op == Opcode::gemm) gemms.push_back(i);
    }
    if (gemms.size() > 1) std::swap(lane.instrs[gemms.front()], lane.instrs[gemms.back()]);
  }
  fuse_tasks(plan);
  // As two tiles of half the K, on an SM each.
  const double apart_us = simulate(plan, machine).compute_us;
  EXPECT_GE(apart_us, compute_us / 2);
  EXPECT_LE(apart_us, compute_us);
}

}  // namespace
}  // namespace stretto

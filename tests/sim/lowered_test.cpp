// Properties of the simulation on the plans that lowering makes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "stretto/lower.h"
#include "stretto/simulate.h"

namespace stretto {
namespace {

Segment gemm(ProductKind kind, int64_t m, int64_t n, int64_t k, int ranks) {
  Segment op;
  op.kind = kind;
  op.m = m;
  op.n = n;
  op.k = k;
  op.ranks = ranks;
  return op;
}

Plan plan_of(const Segment& op, const std::string& schedule, const Machine& machine) {
  return lower(op, parse_schedule(schedule, op, machine), machine);
}

double total_us(const Segment& op, const std::string& schedule, const Machine& machine) {
  return simulate(plan_of(op, schedule, machine), machine).total_us;
}

constexpr ProductKind kKinds[] = {kAgGemm, kGemmRs, kGemmAr};

void expect_sound(const Plan& plan, const Simulation& result) {
  EXPECT_GT(result.total_us, 0);
  EXPECT_GE(result.total_us, result.compute_us - 1e-6);
  EXPECT_GE(result.total_us, result.floor_us * (1 - 1e-9));
  EXPECT_NEAR(result.exposed_us, result.total_us - result.compute_us, 1e-6);
  EXPECT_LE(result.efficiency, 1 + 1e-9);
  EXPECT_LE(result.compute_occupancy, 1 + 1e-9);

  ASSERT_FALSE(result.critical_path.empty());
  EXPECT_EQ(result.critical_path.front().end_us, result.total_us);
  EXPECT_EQ(result.critical_path.back().start_us, 0);
  for (size_t i = 0; i + 1 < result.critical_path.size(); ++i) {
    EXPECT_EQ(result.critical_path[i].start_us, result.critical_path[i + 1].end_us);
    EXPECT_FALSE(result.critical_path[i].why.empty());
  }

  ASSERT_EQ(result.lanes.size(), plan.lanes.size());
  std::vector<double> lane_end(plan.lanes.size(), 0), in_tasks(plan.lanes.size(), 0);
  std::vector<uint32_t> next_pos(plan.lanes.size(), 0);
  double last_end = 0;
  for (const Span& span : result.spans) {
    const uint32_t lane = span.where.lane;
    EXPECT_GE(span.end_us, last_end);
    last_end = span.end_us;
    EXPECT_GE(span.start_us, lane_end[lane]);
    EXPECT_GE(span.where.pos, next_pos[lane]);
    next_pos[lane] = span.where.pos + 1;
    lane_end[lane] = span.end_us;
    const Instr& instr = plan.lanes[lane].instrs[span.where.pos];
    EXPECT_EQ(span.released_by.lane != kNoLane, instr.op == Opcode::wait);
    if (instr.is_task()) in_tasks[lane] += span.end_us - span.start_us;
  }
  for (const LaneUse& use : result.lanes) {
    EXPECT_NEAR(use.busy_us, in_tasks[use.lane], 1e-6);
    EXPECT_LE(use.busy_us + use.waiting_us, result.total_us + 1e-6);
  }
}

TEST(SimulateLowered, EveryPresetKeepsItsBooksInOrder) {
  for (const ProductKind kind : kKinds) {
    for (const int ranks : {1, 2, 8, 16}) {
      const Segment op = gemm(kind, 1000, 1024, 2048, ranks);
      const Machine machine = default_machine(ranks);
      for (const Preset& preset : presets()) {
        const Schedule schedule = preset.make(op, machine);
        if (!legal(op, schedule, machine).empty()) continue;
        SCOPED_TRACE(fmt::format("{} {}", to_string(op), preset.name));
        const Plan plan = lower(op, schedule, machine);
        expect_sound(plan, simulate(plan, machine));
      }
    }
  }
}

// Where links decide, and of a pair or of NCCL's large messages they are faster than of a whole
// node.
TEST(SimulateLowered, NothingBeatsTheFloorOfTheLinks) {
  for (const ProductKind kind : kKinds) {
    for (const int ranks : {2, 4, 8}) {
      for (const char* name : {"h200x8", "h100x8", "a100x8-pcie"}) {
        const Machine machine = load_machine(name);
        const Segment op = gemm(kind, 8192, 8192, kind == kAgGemm ? 8192 : 16 * ranks, ranks);
        for (const Preset& preset : presets()) {
          const Schedule schedule = preset.make(op, machine);
          if (!legal(op, schedule, machine).empty()) continue;
          const Simulation result = simulate(lower(op, schedule, machine), machine);
          EXPECT_LE(result.efficiency, 1 + 1e-9) << to_string(op) << " " << preset.name << name;
        }
      }
    }
  }
}

TEST(SimulateLowered, GivesTheSameTimesEveryTime) {
  const Machine machine = load_machine("h200x8");
  const Segment op = gemm(kGemmRs, 2048, 4096, 14336, 8);
  const Plan plan = plan_of(op, "tiles", machine);
  const Simulation first = simulate(plan, machine), second = simulate(plan, machine);
  EXPECT_EQ(first.total_us, second.total_us);
  EXPECT_EQ(first.communication_us, second.communication_us);
  ASSERT_EQ(first.spans.size(), second.spans.size());
  for (size_t i = 0; i < first.spans.size(); ++i) {
    EXPECT_EQ(first.spans[i].where, second.spans[i].where);
    EXPECT_EQ(first.spans[i].end_us, second.spans[i].end_us);
  }
}

TEST(SimulateLowered, OneRankIsAllComputation) {
  const Machine machine = load_machine("h200x8");
  for (const ProductKind kind : kKinds) {
    const Segment op = gemm(kind, 4096, 4096, 4096, 1);
    const Simulation result = simulate(plan_of(op, "sequential", machine), machine);
    EXPECT_NEAR(result.exposed_us, 0, 1e-6);
    EXPECT_EQ(result.communication_us, 0);
    EXPECT_TRUE(result.links.empty());
  }
}

// Ports serve at one rate, so the time that they serve tells the bytes that passed.
TEST(SimulateLowered, PortsCarryTheBytesOfTheOperator) {
  const Machine machine = load_machine("h200x8");
  const struct {
    ProductKind kind;
    const char* schedule;
  } cases[] = {{kGemmRs, "tiles"},
               {kGemmRs, "slices"},
               {kGemmRs, "decomposed"},
               {kGemmAr, "tiles"},
               {kAgGemm, "tiles"}};
  for (const auto& c : cases) {
    const Segment op = gemm(c.kind, 2048, 4096, 4096, 8);
    const Simulation result = simulate(plan_of(op, c.schedule, machine), machine);
    std::map<int, double> sending;
    for (const LinkUse& use : result.links) sending[use.rank] += use.end_us - use.start_us;
    ASSERT_EQ(sending.size(), 8u);
    for (const auto& [rank, time_us] : sending) {
      EXPECT_NEAR(time_us * machine.link_gb_per_s * 1e3, link_bytes(op), 1e-6 * link_bytes(op))
          << c.schedule << " rank " << rank;
    }
  }
}

TEST(SimulateLowered, FasterPartsNeverMakeAPlanMuchSlower) {
  const Machine machine = load_machine("h200x8");
  Machine links = machine, signals = machine, sms = machine;
  links.link_gb_per_s *= 2;
  for (auto& point : links.nccl_by_bytes.points) point.gb_per_s *= 2;
  for (auto& point : links.push_multi_by_blocks.points) point.gb_per_s *= 2;
  links.copy_engine_all_gb_per_s *= 2;
  signals.signal_us = signals.local_signal_us = signals.release_us = 0;
  sms.gemm_tflops *= 2;
  for (const ProductKind kind : kKinds) {
    const Segment op = gemm(kind, 2048, 8192, 8192, 8);
    for (const Preset& preset : presets()) {
      const Plan plan = lower(op, preset.make(op, machine), machine);
      const double before = simulate(plan, machine).total_us;
      // First come, first served has anomalies of a piece or two, as the real machine has.
      for (const Machine* better : {&links, &signals, &sms}) {
        EXPECT_LE(simulate(plan, *better).total_us, before * 1.01) << preset.name;
      }
    }
  }
}

TEST(SimulateLowered, OverlapPaysOnComputeBoundShapes) {
  const Machine machine = load_machine("h200x8");
  const struct {
    Segment op;
    const char* schedule;
  } cases[] = {{gemm(kGemmRs, 4096, 8192, 28672, 8), "tiles"},
               {gemm(kGemmRs, 8192, 8192, 28672, 8), "tiles"},
               {gemm(kGemmRs, 4096, 12288, 49152, 8), "tiles"},
               {gemm(kAgGemm, 8192, 57344, 8192, 8), "tiles,order=arrival"},
               {gemm(kAgGemm, 4096, 57344, 8192, 8), "tiles,order=arrival"}};
  for (const auto& c : cases) {
    EXPECT_LT(total_us(c.op, c.schedule, machine), total_us(c.op, "sequential", machine))
        << to_string(c.op);
  }
}

TEST(SimulateLowered, CommunicationBlocksHelpUntilTheyTakeTooMuch) {
  const Machine machine = load_machine("h200x8");
  const Segment op = gemm(kAgGemm, 4096, 28672, 4096, 8);
  std::map<int, double> by_blocks;
  for (const int blocks : {1, 8, 80}) {
    const std::string schedule = fmt::format("tiles,order=arrival,comm-sms={}", blocks);
    by_blocks[blocks] = total_us(op, schedule, machine);
  }
  EXPECT_LT(by_blocks[8], 0.9 * by_blocks[1]);
  EXPECT_LT(by_blocks[8], 0.9 * by_blocks[80]);
}

TEST(SimulateLowered, ReuseOfBuffersDoesNotChangeOneRun) {
  const Machine machine = load_machine("h200x8");
  for (const ProductKind kind : kKinds) {
    const Segment op = gemm(kind, 2048, 4096, 4096, 8);
    EXPECT_NEAR(total_us(op, "tiles,reuse=double", machine),
                total_us(op, "tiles,reuse=ack", machine), 1e-6);
  }
}

// A library's products have the SMs that movers leave; of two of a gather the last has all.
TEST(SimulateLowered, ProductsOfALibraryHaveTheSmsThatMoversLeave) {
  const Machine machine = load_machine("h200x8");
  const auto busy_us = [&](ProductKind kind, int comm_sms) {
    const Plan plan = plan_of(
        gemm(kind, 8192, 8192, 8192, 2),
        fmt::format("decomposed,gemm=library,mover=comm-blocks,comm-sms={}", comm_sms), machine);
    double most = 0;
    for (const LaneUse& use : simulate(plan, machine).lanes) {
      if (plan.lanes[use.lane].kind == LaneKind::compute) most = std::max(most, use.busy_us);
    }
    return most;
  };
  const int half = machine.sms / 2;
  EXPECT_NEAR(busy_us(kGemmRs, half) / busy_us(kGemmRs, 4), 1.94, 0.15);
  EXPECT_NEAR(busy_us(kAgGemm, half) / busy_us(kAgGemm, 4), 1.48, 0.15);
}

TEST(SimulateLowered, ASlowNetworkShows) {
  const Machine machine = load_machine("h200x16");
  Machine slow = machine;
  slow.network_gb_per_s /= 4;
  const Segment op = gemm(kGemmRs, 4096, 8192, 28672, 16);
  const Plan plan = plan_of(op, "tiles", machine);
  EXPECT_GT(simulate(plan, slow).total_us, 2 * simulate(plan, machine).total_us);
}

}  // namespace
}  // namespace stretto

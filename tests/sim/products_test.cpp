// Products of one plan, each with tiles and a library of its own, cost what they cost alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "plan/tile_task.h"
#include "sim/calibration.h"
#include "sim/costs.h"
#include "stretto/lower.h"
#include "stretto/simulate.h"

namespace stretto {
namespace {

const Machine& machine() {
  static const Machine it = default_machine(2);
  return it;
}

Plan plan_of(const std::string& schedule) {
  const Operator op = make_operator("mlp", {{"m", 4096}, {"h", 4096}, {"f", 16384}}, 2);
  return lower(op, parse_schedules(schedule, op, machine()), machine());
}

// By boundaries before them: what rank 0's gemms take in all, and how many there are.
struct OfKernel {
  double us = 0;
  int gemms = 0;
};
std::map<size_t, OfKernel> kernels_of(const Plan& plan) {
  const sim::Costs costs(plan, machine());
  std::map<size_t, OfKernel> kernels;
  for (const Lane& lane : plan.lanes) {
    if (lane.rank != 0 || lane.kind != LaneKind::compute) continue;
    size_t behind = 0;
    for (const Instr& instr : lane.instrs) {
      behind += instr.op == Opcode::boundary;
      if (instr.op != Opcode::gemm) continue;
      kernels[behind].us += costs.gemm_us(instr);
      ++kernels[behind].gemms;
    }
  }
  return kernels;
}

TEST(Products, HaveTheRatesOfTheirTiles) {
  const auto large = kernels_of(plan_of("tiles,tile=128x256"));
  const auto mixed = kernels_of(plan_of("tiles,tile=128x256/down:tiles,tile=64x64"));
  ASSERT_EQ(large.size(), 2u);
  ASSERT_EQ(mixed.size(), 2u);
  EXPECT_EQ(mixed.begin()->second.gemms, large.begin()->second.gemms);
  EXPECT_EQ(mixed.rbegin()->second.gemms, 8 * large.rbegin()->second.gemms);
  // Small tiles wait for their operands.
  EXPECT_GT(mixed.rbegin()->second.us, 1.2 * large.rbegin()->second.us);
  EXPECT_NEAR(mixed.begin()->second.us, large.begin()->second.us, 0.1 * large.begin()->second.us);
  EXPECT_GT(simulate(plan_of("tiles,tile=128x256/down:tiles,tile=64x64"), machine()).total_us,
            simulate(plan_of("tiles,tile=128x256"), machine()).total_us);
}

TEST(Products, OfALibraryTakeItsTimeBesideOthersOfTiles) {
  const auto library = kernels_of(plan_of("library"));
  const auto tiles = kernels_of(plan_of("tiles"));
  const auto mixed = kernels_of(plan_of("tiles/down:library"));
  ASSERT_EQ(mixed.size(), 2u);
  EXPECT_EQ(mixed.begin()->second.gemms, tiles.begin()->second.gemms);
  EXPECT_EQ(mixed.rbegin()->second.gemms, library.rbegin()->second.gemms);
  EXPECT_NEAR(mixed.rbegin()->second.us, library.rbegin()->second.us,
              0.2 * library.rbegin()->second.us);
  EXPECT_NEAR(mixed.begin()->second.us, tiles.begin()->second.us, 0.1 * tiles.begin()->second.us);
}

// A library's start is in what its product takes.
TEST(Products, OfALibraryBehindABoundaryStartByThemselves) {
  const Plan mixed = plan_of("tiles/down:library");
  const sim::Costs costs(mixed, machine());
  ASSERT_EQ(mixed.library_kernels.size(), 1u);
  const auto behind = static_cast<size_t>(mixed.library_kernels.front().behind);
  EXPECT_EQ(costs.boundary_us(behind), 0);
  EXPECT_EQ(sim::Costs(plan_of("tiles"), machine()).boundary_us(behind),
            machine().chained_launch_us);
  EXPECT_GT(costs.launch_us(), 0);
  EXPECT_EQ(sim::Costs(plan_of("library/down:tiles"), machine()).launch_us(), 0);
}

TEST(Products, OfALibraryBehindAnotherTakeLonger) {
  const Operator both = make_operator("mlp", {{"m", 128}, {"h", 512}, {"f", 1024}}, 2);
  const Operator one = make_operator("gemm-rs", {{"m", 128}, {"n", 512}, {"k", 1024}}, 2);
  // What the last kernel of a lane takes, at most.
  const auto last_us = [](const Operator& op) {
    const Plan plan = lower(op, parse_schedules("library", op, machine()), machine());
    const sim::Costs costs(plan, machine());
    double most_us = 0;
    for (const Lane& lane : plan.lanes) {
      double us = 0;
      bool is_next = false;
      for (const Instr& instr : lane.instrs) {
        is_next |= instr.op == Opcode::boundary;
        if (instr.op != Opcode::gemm) continue;
        us = (is_next ? 0 : us) + costs.gemm_us(instr);
        is_next = false;
      }
      most_us = std::max(most_us, us);
    }
    return most_us;
  };
  EXPECT_NEAR(last_us(both) - last_us(one), sim::kLibraryBehindUs, 0.1);
}

// In chunks a library multiplies as much, a kernel each, so no sooner than all of it at once.
TEST(Products, OfALibraryInChunksTakeNoLessThanWhole) {
  const Sizes product{{"m", 8192}, {"n", 8192}, {"k", 8192}};
  const Machine of_eight = default_machine(8);
  for (const char* name : {"ag-gemm", "gemm-rs", "gemm-ar", "gemm-a2a", "a2a-gemm"}) {
    SCOPED_TRACE(name);
    const Operator op = make_operator(name, product, 8);
    const auto gemm_us = [&](const std::string& schedule) {
      return simulate(lower(op, parse_schedules(schedule, op, of_eight), of_eight), of_eight)
          .compute_us;
    };
    const double whole = gemm_us("library");
    const double halves = gemm_us("two-chunk,gemm=library");
    EXPECT_GE(halves, whole);
    EXPECT_LT(halves, 1.3 * whole);
  }
  const auto of_mlp = [&](const std::string& schedule) {
    return simulate(plan_of(schedule), machine()).compute_us;
  };
  // Collectives in parts take longer, in which SMs rest.
  EXPECT_GE(of_mlp("two-chunk,gemm=library"), 0.99 * of_mlp("library"));
  EXPECT_GT(of_mlp("tiles/down:two-chunk,gemm=library"), 0.9 * of_mlp("tiles"));
}

// The time of an operator's routed products on one rank, whose longest lane it is, and how much of
// all lanes' is of entries without rows.
struct OfExperts {
  double us = 0, of_empty = 0;
};
OfExperts experts_of(const char* text, const char* schedule) {
  const Machine one = default_machine(1);
  const Operator op = parse_operator(text);
  const Plan plan = lower(op, parse_schedules(schedule, op, one), one);
  const sim::Costs costs(plan, one);
  OfExperts found;
  for (const Lane& lane : plan.lanes) {
    double us = 0;
    for (const Instr& instr : lane.instrs) {
      if (!is_routed_product(instr.op)) continue;
      us += costs.gemm_us(instr);
      if (costs.is_empty(instr)) found.of_empty += costs.gemm_us(instr);
    }
    found.us = std::max(found.us, us);
  }
  return found;
}

TEST(Products, OfExpertsWholeHaveNoTilesWithoutRows) {
  const char* const few = "moe-tp-down t=200 h=512 f=96 experts=16 k=2 ranks=1 dtype=bf16";
  EXPECT_GT(experts_of(few, "sequential").of_empty, 0);
  EXPECT_EQ(experts_of(few, "library").of_empty, 0);
}

TEST(Products, OfExpertsWithShortSumsTakeTheTimeOfWhatTheyStore) {
  const char* const thin = "moe-tp-down t=8192 h=2048 f=96 experts=128 k=8 ranks=1 dtype=bf16";
  const double stored_us = 8192 * 8 * 2048 * 2 / (default_machine(1).hbm_gb_per_s * 1e3);
  const double us = experts_of(thin, "library").us;
  EXPECT_GT(us, stored_us);
  EXPECT_LT(us, 1.5 * stored_us);
}

}  // namespace
}  // namespace stretto

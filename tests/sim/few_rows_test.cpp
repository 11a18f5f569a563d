// What a product costs whose blocks send what they have multiplied: that of reading weights, and
// what stands behind the last of them.
#include <gtest/gtest.h>

#include <algorithm>

#include "sim/calibration.h"
#include "sim/costs.h"
#include "stretto/lower.h"
#include "stretto/simulate.h"

namespace stretto {
namespace {

Plan plan_of(const char* op_text, const char* schedule) {
  const Operator op = parse_operator(op_text);
  const Machine machine = default_machine(op.ranks);
  return lower(op, parse_schedules(schedule, op, machine), machine);
}

double simulated_us(const char* op, const char* schedule) {
  const Plan plan = plan_of(op, schedule);
  return simulate(plan, default_machine(plan.ranks())).total_us;
}

// From when all ranks are at the plan's first collective, and so many bytes of it.
double behind_us(const Plan& plan, const Machine& machine) {
  const sim::Costs costs(plan, machine);
  for (const Lane& lane : plan.lanes) {
    for (const Instr& instr : lane.instrs) {
      if (instr.op != Opcode::collective) continue;
      const Plan::Joined joined = plan.joined_by(instr, lane.rank);
      return costs.collective_launch_us(instr, joined) + costs.collective_us(instr, joined);
    }
  }
  return 0;
}

TEST(FewRows, TakeNoKernelsStartBehindTheProduct) {
  for (const char* op : {"gemm-ar m=64 n=8192 k=8192 ranks=2 dtype=bf16",
                         "gemm-ar-norm m=64 n=8192 k=8192 ranks=2 dtype=bf16",
                         "gemm-rs m=19 n=4096 k=14336 ranks=8 dtype=bf16"}) {
    const Plan plan = plan_of(op, "few-rows");
    const Machine machine = default_machine(plan.ranks());
    const Region& weights = plan.operands[1];
    const double read_us = sim::move_us(2.0 * static_cast<double>(weights.elements()),
                                        sim::kFewRowsRead * machine.hbm_gb_per_s);
    const double us = simulated_us(op, "few-rows"), by_cublas = simulated_us(op, "low-latency");
    EXPECT_GT(us, read_us) << op;
    EXPECT_LT(us, by_cublas - 1) << op;
    EXPECT_GT(us, 0.6 * by_cublas) << op;
  }
}

// What the longest of rank 0's lanes takes for its products, and the bytes of their weights.
struct Multiplied {
  double us = 0, weight_bytes = 0;
};

Multiplied multiplied(const char* op, const char* schedule = "few-rows") {
  const Plan plan = plan_of(op, schedule);
  const sim::Costs costs(plan, default_machine(2));
  Multiplied found;
  for (const Lane& lane : plan.lanes) {
    if (lane.rank != 0) continue;
    double us = 0;
    for (const Instr& instr : lane.instrs) {
      if (instr.op != Opcode::gemm) continue;
      us += costs.gemm_us(instr);
      found.weight_bytes += 2.0 * static_cast<double>(plan.reads(instr)[1].elements());
    }
    found.us = std::max(found.us, us);
  }
  return found;
}

// Weights are asked for before the gather is over; few columns are shared among blocks of a
// cluster. No cache keeps so many weights.
TEST(FewRows, StartBesideAGatherAndShareFewColumns) {
  const Machine machine = default_machine(2);
  const auto beyond_reads = [&](const char* op) {
    const Multiplied of = multiplied(op);
    return of.us - sim::move_us(of.weight_bytes, sim::kFewRowsRead * machine.hbm_gb_per_s);
  };
  const double started = sim::kFewRowsStartUs + sim::kFewRowsSendUs;
  EXPECT_NEAR(beyond_reads("gemm-rs m=16 n=8192 k=8192 ranks=2 dtype=bf16"),
              started - sim::kFewRowsChainedUs, 0.01);
  EXPECT_NEAR(beyond_reads("gemm-rs m=16 n=2048 k=32768 ranks=2 dtype=bf16"),
              started - sim::kFewRowsChainedUs + sim::kFewRowsSplitUs, 0.01);
  EXPECT_NEAR(beyond_reads("ag-gemm m=16 n=16384 k=4096 ranks=2 dtype=bf16"),
              started - sim::kFewRowsEarlyUs, 0.01);
}

// An SM takes weights and tokens together: 40 blocks with 128 rows each are held back by that. Few
// weights come out of the L2 cache.
TEST(FewRows, AreHeldBackByAnSmAndSpedUpByTheCache) {
  const double start = sim::kFewRowsStartUs + sim::kFewRowsSendUs;
  const Multiplied wide = multiplied("ag-gemm m=128 n=2560 k=8192 ranks=2 dtype=bf16");
  EXPECT_NEAR(wide.us - start + sim::kFewRowsEarlyUs - sim::kFewRowsSplitUs,
              2 * 4096 * (64 + 128) / (1e3 * sim::kFewRowsOfSm), 0.01);
  const Multiplied kept = multiplied("gemm-rs m=16 n=8192 k=1024 ranks=2 dtype=bf16");
  EXPECT_LT(kept.us - start + sim::kFewRowsChainedUs,
            0.6 * sim::move_us(kept.weight_bytes, default_machine(2).hbm_gb_per_s));
}

// Blocks of 40 columns that take K whole are held back by its stages, not by memory. More tiles
// than SMs hold at once wait for their first weights once more.
TEST(FewRows, TakeStagesOfKAndRoundsOfTiles) {
  const double start = sim::kFewRowsStartUs + sim::kFewRowsSendUs - sim::kFewRowsChainedUs;
  const Multiplied narrow = multiplied("gemm-rs m=56 n=5120 k=32768 ranks=2 dtype=bf16");
  EXPECT_NEAR(narrow.us - start,
              16384 / 64 * (sim::kFewRowsStageUs + 56 * sim::kFewRowsStageOfRowUs), 0.01);
  const Multiplied rounds =
      multiplied("gemm-rs m=16 n=32768 k=8192 ranks=2 dtype=bf16", "low-latency,gemm=few-rows");
  const double read_us =
      sim::move_us(rounds.weight_bytes, sim::kFewRowsRead * default_machine(2).hbm_gb_per_s);
  EXPECT_NEAR(rounds.us - start, read_us + sim::kFewRowsRoundUs, 0.01);
}

// As of few rows, so of cuBLAS: what stands behind another kernel has begun before that has ended.
TEST(LowLatency, StartsAreOverEarlyAroundCublas) {
  const Machine machine = default_machine(2);
  const char* gather = "ag-gemm m=16 n=16384 k=4096 ranks=2 dtype=bf16";
  EXPECT_NEAR(multiplied(gather, "library").us - multiplied(gather, "low-latency").us,
              sim::kLibraryEarlyUs, 0.01);
  const char* sums = "gemm-rs m=16 n=8192 k=4096 ranks=2 dtype=bf16";
  EXPECT_NEAR(behind_us(plan_of(sums, "sequential,collectives=low-latency"), machine) -
                  behind_us(plan_of(sums, "low-latency"), machine),
              sim::kSumsEarlyUs, 1e-9);
}

TEST(FewRows, BytesOfAllButTheLastWaveAreSentMeanwhile) {
  const Machine machine = default_machine(2);
  const auto link_us = [&](const char* op) {
    return behind_us(plan_of(op, "low-latency,gemm=few-rows"), machine) - machine.signal_us -
           sim::kReceiveUs + sim::kFewRowsSendUs;
  };
  const double one = link_us("gemm-ar m=64 n=16384 k=4096 ranks=2 dtype=bf16");
  EXPECT_NEAR(one, sim::move_us(64 * 16384 * 2, machine.link_gb_per_s), 1e-9);
  const double four = link_us("gemm-ar m=64 n=65536 k=4096 ranks=2 dtype=bf16");
  EXPECT_NEAR(four, one, 0.05 * one);
  const double scattered = link_us("gemm-rs m=64 n=16384 k=4096 ranks=2 dtype=bf16");
  EXPECT_NEAR(scattered, one / 2, 1e-9);
}

// More rows: one tile goes beside the next, and owners' rows ahead of own ones.
TEST(FewRows, TilesGoBesideTheNext) {
  const Machine machine = default_machine(2);
  const auto behind = [&](const char* op) {
    const Plan plan = plan_of(op, "few-rows");
    EXPECT_TRUE(plan.any_few_rows()) << op;
    return behind_us(plan, machine) - machine.signal_us - sim::kReceiveUs + sim::kFewRowsSendUs;
  };
  const char* const ar = "gemm-ar m=512 n=8192 k=8192 ranks=2 dtype=bf16";
  const double all_us = sim::move_us(512 * 8192 * 2, machine.link_gb_per_s);
  const double half = behind(ar) / all_us;
  EXPECT_NEAR(half, 0.5, 0.05);
  // What is left is what its receiver reads, poisons and writes.
  const double received_us = sim::move_us(2.5 * 813 * 5120 * 2, machine.hbm_gb_per_s);
  EXPECT_NEAR(behind("gemm-rs m=813 n=5120 k=8960 ranks=2 dtype=bf16"), received_us, 0.1);
  // On two H200s 36.7 and 46.5 us; of four times the K 80 and 82, since stores hold products up.
  const char* const shorter = "gemm-ar m=512 n=8192 k=2048 ranks=2 dtype=bf16";
  EXPECT_LT(simulated_us(shorter, "few-rows"), simulated_us(shorter, "low-latency") - 4);
}

}  // namespace
}  // namespace stretto

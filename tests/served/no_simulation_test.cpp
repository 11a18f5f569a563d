// A bucket that a server meets inside a call is planned without a simulation, whatever was
// measured. What this binary has stands in for the library's simulation, and counts.
#include <gtest/gtest.h>

#include <atomic>

#include "stretto/buckets.h"
#include "stretto/error.h"
#include "stretto/lower.h"
#include "stretto/simulate.h"
#include "stretto/tune.h"

namespace stretto {
namespace {

std::atomic<int> simulations = 0;  // by several threads

constexpr int64_t kMostRows = 8192;

}  // namespace

// The same symbols as simulate.cpp has, all of them: else the linker takes that one's too.
double simulated_us(const Plan&, const Machine&) { return 1.0 + ++simulations; }
Simulation simulate_lowered(const Plan& plan, const Machine& machine) {
  Simulation one;
  one.total_us = simulated_us(plan, machine);
  return one;
}
Simulation simulate(const Plan& plan, const Machine& machine) {
  return simulate_lowered(plan, machine);
}

namespace {

// The count below counts.
TEST(NewBuckets, WouldBeCounted) {
  const Segment op = parse_segment("gemm-rs m=1024 n=1024 k=1536 ranks=3 dtype=bf16");
  simulations = 0;
  auto_schedule(op, default_machine(3), {});
  EXPECT_GT(simulations, 0);
}

// All buckets of a server, also of ranks and shapes that nobody measured.
TEST(NewBuckets, AreNotSimulated) {
  const Tuning shipped = shipped_tuning();
  const Tuning nothing;
  simulations = 0;
  int chosen = 0;
  for (const ProductKind kind : {kAgGemm, kGemmRs, kGemmAr}) {
    for (const int ranks : {2, 3, 4, 5, 7, 8, 16}) {
      const Machine machine = default_machine(ranks);
      for (int64_t rows = 1; rows <= kMostRows; rows = bucket_of(kind, ranks, rows) + 1) {
        const Segment op{
            kind, bucket_of(kind, ranks, rows), 1024 * ranks, 2048 * ranks, ranks, DType::bf16};
        for (const Tuning* tuning : {&shipped, &nothing}) {
          for (const RowsFrom from : {RowsFrom::host, RowsFrom::gpu_memory}) {
            const AutoSchedule found = served_schedule(op, machine, *tuning, from);
            EXPECT_TRUE(legal(op, found.schedule, machine).empty()) << to_string(op);
            EXPECT_EQ(found.schedule.rows, RowCount::bucket);
            EXPECT_FALSE(found.reason.empty());
            ++chosen;
          }
          // As the command chooses with --rows.
          EXPECT_EQ(auto_schedule(op, machine, *tuning, RowCount::bucket).schedule,
                    served_schedule(op, machine, *tuning).schedule);
        }
      }
    }
  }
  EXPECT_GT(chosen, 1000);
  EXPECT_EQ(simulations, 0);
}

}  // namespace
}  // namespace stretto

// What the tuning that comes with Stretto says of buckets.
#include <gtest/gtest.h>

#include <algorithm>

#include "stretto/tune.h"

namespace stretto {
namespace {

// Nothing on our GEMM that cannot leave out rows was faster than what can.
TEST(ShippedTuning, ServesBucketsByWhatWasFastest) {
  const Tuning tuning = shipped_tuning();
  ASSERT_FALSE(tuning.operators().empty());
  for (const TunedOperator& tuned : tuning.operators()) {
    SCOPED_TRACE(to_string(tuned.op));
    const Machine machine = default_machine(tuned.op.ranks);
    ASSERT_EQ(machine.name, tuned.machine);
    const auto fixed = measured_schedule(tuned.op, machine, tuning);
    ASSERT_TRUE(fixed);
    if (fixed->schedule.gemm == GemmBy::library || tuned.op.m % tuned.op.ranks != 0) continue;
    const auto bucket = measured_schedule(tuned.op, machine, tuning, RowCount::bucket);
    ASSERT_TRUE(bucket);
    Schedule expected = fixed->schedule;
    expected.rows = RowCount::bucket;
    EXPECT_EQ(bucket->schedule, expected);
  }
}

// The fastest for few rows is told them by the host.
TEST(ShippedTuning, RowsInGpuMemoryGoByOurKernels) {
  const Tuning tuning = shipped_tuning();
  const Operator op = parse_operator("gemm-ar m=64 n=4096 k=3584 ranks=2 dtype=bf16");
  const Machine machine = default_machine(2);
  const auto of_host = measured_schedule(op, machine, tuning, RowCount::bucket);
  const auto of_memory =
      measured_schedule(op, machine, tuning, RowCount::bucket, RowsFrom::gpu_memory);
  ASSERT_TRUE(of_host && of_memory);
  EXPECT_EQ(of_host->schedule.collectives, CollectivesBy::low_latency);
  EXPECT_EQ(of_memory->schedule.gemm, GemmBy::tiles);
  EXPECT_EQ(
      simulated_schedule(op, machine, {}, RowCount::bucket, RowsFrom::gpu_memory).schedule.gemm,
      GemmBy::tiles);
}

// docs/serving.md says so.
TEST(ShippedTuning, WhatServesIsHardlyEverSlowerThanTheLibrary) {
  const Tuning tuning = shipped_tuning();
  size_t compared = 0, slower = 0;
  for (const TunedOperator& tuned : tuning.operators()) {
    SCOPED_TRACE(to_string(tuned.op));
    if (tuned.op.kind != OpKind::gemm_ar && tuned.op.m % tuned.op.ranks != 0) continue;
    const Machine machine = default_machine(tuned.op.ranks);
    const auto bucket = measured_schedule(tuned.op, machine, tuning, RowCount::bucket);
    ASSERT_TRUE(bucket);
    Schedule served = bucket->schedule;
    served.rows = RowCount::fixed;
    const auto found =
        std::find_if(tuned.measured.begin(), tuned.measured.end(), [&](const Measured& one) {
          return parse_schedule(one.schedule, tuned.op, machine) == served;
        });
    ASSERT_NE(found, tuned.measured.end());
    EXPECT_LE(found->time_us, 1.05 * tuned.library_us);
    slower += found->time_us > tuned.library_us;
    ++compared;
  }
  EXPECT_LE(slower, 1u);
  EXPECT_GT(compared, 150u);
}

}  // namespace
}  // namespace stretto

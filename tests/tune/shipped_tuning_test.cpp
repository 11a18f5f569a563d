// What the tuning that comes with Stretto says of buckets.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "stretto/tune.h"
#include "tune/rows_in_memory.h"

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
    if (fixed->schedule.gemm != GemmBy::tiles || tuned.op.m % tuned.op.ranks != 0) continue;
    const auto bucket = measured_schedule(tuned.op, machine, tuning, RowCount::bucket);
    ASSERT_TRUE(bucket);
    Schedule expected = fixed->schedule;
    expected.rows = RowCount::bucket;
    EXPECT_EQ(bucket->schedule, expected);
  }
}

// What `auto` takes was measured beside `sequential` and `library`, and every time beside what the
// simulation said of it.
TEST(ShippedTuning, AutoIsNeverSlowerThanSequentialOrTheLibrary) {
  const Tuning tuning = shipped_tuning();
  for (const TunedOperator& tuned : tuning.operators()) {
    SCOPED_TRACE(to_string(tuned.op));
    const Machine machine = default_machine(tuned.op.ranks);
    const auto time_of = [&](const Schedule& schedule) {
      for (const Measured& one : tuned.measured) {
        if (parse_schedule(one.schedule, tuned.op, machine) == schedule) return one.time_us;
      }
      ADD_FAILURE() << "not measured: " << to_string(schedule);
      return 0.0;
    };
    const double chosen = time_of(auto_schedule(tuned.op, machine, tuning).schedule);
    for (const char* preset : {"sequential", "library"}) {
      EXPECT_LE(chosen, time_of(parse_schedule(preset, tuned.op, machine))) << preset;
    }
    EXPECT_LE(chosen, tuned.library_us);
    for (const Measured& one : tuned.measured) EXPECT_TRUE(one.predicted_us) << one.schedule;
  }
}

// What is fastest for few rows serves them too where memory says how many there are; of more rows
// it would multiply too many.
TEST(ShippedTuning, RowsInGpuMemoryGoByLowLatencyWhereTheyAreFew) {
  const Tuning tuning = shipped_tuning();
  const Machine machine = default_machine(2);
  const auto chosen = [&](const char* text, RowsFrom from) {
    const Segment op = parse_segment(text);
    const auto found = measured_schedule(op, machine, tuning, RowCount::bucket, from);
    EXPECT_TRUE(found) << text;
    const Schedule simulated = simulated_schedule(op, machine, {}, RowCount::bucket, from).schedule;
    const bool by_library = simulated.gemm == GemmBy::library;
    EXPECT_TRUE(by_library || op.m > 256) << text;
    EXPECT_TRUE(!by_library || op.m <= 256 || from == RowsFrom::host) << text;
    return found ? found->schedule : Schedule();
  };
  const char* few = "gemm-ar m=64 n=4096 k=3584 ranks=2 dtype=bf16";
  EXPECT_EQ(chosen(few, RowsFrom::host).collectives, CollectivesBy::low_latency);
  EXPECT_EQ(chosen(few, RowsFrom::gpu_memory), chosen(few, RowsFrom::host));
  const char* more = "gemm-ar m=512 n=4096 k=3584 ranks=2 dtype=bf16";
  EXPECT_EQ(chosen(more, RowsFrom::host).collectives, CollectivesBy::low_latency);
  EXPECT_EQ(chosen(more, RowsFrom::gpu_memory).gemm, GemmBy::tiles);
}

struct Served {
  size_t compared = 0, slower = 0;
  double worst = 0;  // times as long as the library path
};

// What serves, by what was measured of it, beside cuBLAS and NCCL.
Served served_by(RowsFrom from) {
  const Tuning tuning = shipped_tuning();
  Served found;
  for (const TunedOperator& tuned : tuning.operators()) {
    SCOPED_TRACE(to_string(tuned.op));
    if (tuned.op.kind != kGemmAr && tuned.op.m % tuned.op.ranks != 0) continue;
    const Machine machine = default_machine(tuned.op.ranks);
    const auto bucket = measured_schedule(tuned.op, machine, tuning, RowCount::bucket, from);
    EXPECT_TRUE(bucket);
    if (!bucket) continue;
    Schedule served = bucket->schedule;
    served.rows = RowCount::fixed;
    const auto one =
        std::find_if(tuned.measured.begin(), tuned.measured.end(), [&](const Measured& measured) {
          return parse_schedule(measured.schedule, tuned.op, machine) == served;
        });
    EXPECT_NE(one, tuned.measured.end());
    if (one == tuned.measured.end()) continue;
    const double beyond = us_beyond_measured(served, tuned.op, machine, from);
    const double ratio = (one->time_us + beyond) / tuned.library_us;
    found.slower += ratio > 1;
    found.worst = std::max(found.worst, ratio);
    ++found.compared;
  }
  fmt::print("{} of {} slower than cuBLAS and NCCL, {:.2f} times at worst\n", found.slower,
             found.compared, found.worst);
  return found;
}

// docs/serving.md says so of both.
TEST(ShippedTuning, WhatServesIsHardlyEverSlowerThanTheLibrary) {
  const Served served = served_by(RowsFrom::host);
  EXPECT_GT(served.compared, 150u);
  EXPECT_LE(served.slower, 1u);
  EXPECT_LE(served.worst, 1.05);
}

TEST(ShippedTuning, WhatServesRowsInGpuMemoryIsHardlyEverSlowerEither) {
  const Served served = served_by(RowsFrom::gpu_memory);
  EXPECT_GT(served.compared, 150u);
  EXPECT_LE(served.slower, 2u);
  EXPECT_LE(served.worst, 1.15);
}

}  // namespace
}  // namespace stretto

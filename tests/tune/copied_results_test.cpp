// What `auto` takes where results that ranks write to each other are copied to the caller.
#include "tune/copied_results.h"

#include <gtest/gtest.h>

namespace stretto {
namespace {

Schedule chosen_for(const char* text, bool copied) {
  const Segment op = parse_segment(text);
  const Machine machine = load_machine("h200x8");
  const Tuning tuning = shipped_tuning();
  AutoSchedules chosen = auto_schedules(op, machine, tuning);
  if (copied) chosen = with_copied_results(std::move(chosen), op, machine, tuning);
  return chosen.schedule.first();
}

// On two H200s tiles of 510 x 5120 x 3456 took 36.2 us, and 41.3 with the copy.
TEST(CopiedResults, AreNotMadeWhereTheCopyDecides) {
  constexpr const char* kReduced = "gemm-ar m=700 n=4096 k=7168 ranks=2 dtype=bf16";
  EXPECT_EQ(chosen_for(kReduced, false).mover, Mover::epilogue);
  EXPECT_EQ(chosen_for(kReduced, true).collectives, CollectivesBy::low_latency);
}

TEST(CopiedResults, AreMadeWhereTilesAreFasterByMore) {
  constexpr const char* kMeasured = "gemm-ar m=512 n=8192 k=7168 ranks=2 dtype=bf16";
  EXPECT_EQ(chosen_for(kMeasured, true), chosen_for(kMeasured, false));
  constexpr const char* kScattered = "gemm-rs m=512 n=8192 k=7168 ranks=2 dtype=bf16";
  EXPECT_EQ(chosen_for(kScattered, true), chosen_for(kScattered, false));
}

TEST(CopiedResults, CostWhatTheyMove) {
  const Segment op = parse_segment("gemm-ar m=512 n=8192 k=8192 ranks=2 dtype=bf16");
  const Machine machine = load_machine("h200x8");
  const Schedule schedule = find_preset("tiles").make(op, machine);
  EXPECT_NEAR(copied_result_us(schedule, op, machine), 5.5, 1);
  EXPECT_EQ(copied_result_us(find_preset("low-latency").make(op, machine), op, machine), 0);
}

}  // namespace
}  // namespace stretto

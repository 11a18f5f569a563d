// cuBLAS's other algorithms: measured where they can win, and taken where they were measured only.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stretto/tune.h"

namespace stretto {
namespace {

using testing::IsEmpty;

constexpr const char* kOp = "gemm-rs m=512 n=1024 k=1024 ranks=2 dtype=bf16";
constexpr const char* kHalf = "gemm-rs m=512 n=1024 k=1024 ranks=2 dtype=fp16";

Measured measured(const std::string& schedule, double us) { return {schedule, us, us, us, {}, {}}; }

Tuning tuning_of(const std::string& op, std::vector<Measured> measured) {
  TunedOperator tuned;
  tuned.op = parse_segment(op);
  tuned.machine = "h200x8";
  tuned.library_us = 100;
  tuned.measured = std::move(measured);
  Tuning tuning;
  tuning.add(tuned);
  return tuning;
}

Schedule schedule_of(const std::string& text, const std::string& op_text) {
  const Segment op = parse_segment(op_text);
  return parse_schedule(text, op, default_machine(op.ranks));
}

std::vector<Schedule> to_measure(std::vector<Measured> known) {
  return algorithms_to_measure(parse_segment(kOp), default_machine(2), known);
}

TEST(AlgorithmsToMeasure, AreAllOfTheFastestThatCublasMultipliesFor) {
  const std::vector<Schedule> found =
      to_measure({measured("tiles", 30), measured("library", 40),
                  measured("decomposed,gemm=library", 34), measured("sequential", 90)});
  ASSERT_EQ(found.size(), 7u);
  for (int i = 0; i < 7; ++i) {
    Schedule expected = schedule_of("decomposed,gemm=library", kOp);
    expected.algorithm = i + 1;
    EXPECT_EQ(found[static_cast<size_t>(i)], expected);
    EXPECT_THAT(legal(parse_segment(kOp), expected, default_machine(2)), IsEmpty());
  }
}

TEST(AlgorithmsToMeasure, AreNoneWhereTheyCannotWin) {
  EXPECT_EQ(to_measure({measured("library", 35.9), measured("tiles", 30)}).size(), 7u);
  EXPECT_THAT(to_measure({measured("tiles", 30), measured("library", 36.1)}), IsEmpty());
  EXPECT_THAT(to_measure({measured("tiles", 30), measured("sequential", 31)}), IsEmpty());
  EXPECT_THAT(to_measure({}), IsEmpty());
}

// The first step of a sweep has first choices only, but who calls may know more.
TEST(AlgorithmsToMeasure, GoByTheFirstChoice) {
  const std::vector<Schedule> found =
      to_measure({measured("library,algorithm=2", 20), measured("low-latency", 22)});
  ASSERT_EQ(found.size(), 7u);
  EXPECT_EQ(found[1], schedule_of("low-latency,algorithm=2", kOp));
}

TEST(AutoSchedule, TakesAnAlgorithmWhereItWasMeasured) {
  const Tuning tuning = tuning_of(
      kOp, {measured("library,algorithm=3", 30), measured("library", 40), measured("tiles", 50)});
  const Segment op = parse_segment(kOp);
  EXPECT_EQ(auto_schedule(op, default_machine(2), tuning).schedule,
            schedule_of("library,algorithm=3", kOp));
  EXPECT_EQ(measured_schedule(op, default_machine(2), tuning)->schedule,
            schedule_of("library,algorithm=3", kOp));
}

// cuBLAS's list is another there: what was its fourth may be anything.
TEST(AutoSchedule, TakesNoAlgorithmToAnotherOperator) {
  const Tuning tuning =
      tuning_of(kOp, {measured("library,algorithm=3", 30), measured("low-latency,algorithm=1", 31),
                      measured("library", 40), measured("low-latency", 41), measured("tiles", 90)});
  for (const char* text : {kHalf, "gemm-rs m=576 n=1024 k=1024 ranks=2 dtype=bf16",
                           "gemm-rs m=512 n=1152 k=1024 ranks=2 dtype=bf16",
                           "gemm-rs m=512 n=1024 k=1152 ranks=2 dtype=bf16",
                           "gemm-rs m=512 n=1024 k=2048 ranks=4 dtype=bf16"}) {
    SCOPED_TRACE(text);
    const Segment op = parse_segment(text);
    const Machine machine = default_machine(op.ranks);
    for (const RowCount rows : {RowCount::fixed, RowCount::bucket}) {
      EXPECT_EQ(auto_schedule(op, machine, tuning, rows).schedule.algorithm, 0);
      EXPECT_EQ(simulated_schedule(op, machine, tuning, rows).schedule.algorithm, 0);
    }
    EXPECT_EQ(served_schedule(op, machine, tuning).schedule,
              schedule_of("low-latency,rows=bucket", text));
  }
}

// The nearest low-latency schedule joins what was measured nearer; not by its own algorithm.
TEST(AutoSchedule, BorrowsLowLatencyCollectivesByTheFirstChoice) {
  Tuning tuning = tuning_of(kOp, {measured("tiles", 500), measured("sequential", 600)});
  tuning.add_all(tuning_of("gemm-rs m=256 n=1024 k=1024 ranks=2 dtype=bf16",
                           {measured("low-latency,algorithm=5", 5), measured("low-latency", 6)}));
  const Segment op = parse_segment("gemm-rs m=448 n=1024 k=1024 ranks=2 dtype=bf16");
  const Schedule found = auto_schedule(op, default_machine(2), tuning).schedule;
  EXPECT_EQ(found.collectives, CollectivesBy::low_latency);
  EXPECT_EQ(found.algorithm, 0);
}

TEST(AutoSchedule, OfABucketKeepsTheAlgorithmMeasuredOnItsRows) {
  const Tuning tuning =
      tuning_of(kOp, {measured("low-latency,algorithm=2", 30), measured("low-latency", 40)});
  const auto found = measured_schedule(parse_segment(kOp), default_machine(2), tuning,
                                       RowCount::bucket, RowsFrom::host);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->schedule, schedule_of("low-latency,rows=bucket,algorithm=2", kOp));
}

// bf16 and fp16 speak for each other, but each for itself first.
TEST(AutoSchedule, GoesByItsOwnElementTypeWhereBothWereMeasured) {
  for (const bool half_first : {true, false}) {
    Tuning tuning;
    const Tuning half = tuning_of(kHalf, {measured("library,algorithm=1", 30)});
    const Tuning brain = tuning_of(kOp, {measured("library,algorithm=2", 30)});
    tuning.add_all(half_first ? half : brain);
    tuning.add_all(half_first ? brain : half);
    EXPECT_EQ(auto_schedule(parse_segment(kHalf), default_machine(2), tuning).schedule.algorithm,
              1);
    EXPECT_EQ(auto_schedule(parse_segment(kOp), default_machine(2), tuning).schedule.algorithm, 2);
  }
}

TEST(AutoSchedule, PassesOverAlgorithmsThatCublasIsNotAskedFor) {
  const Tuning tuning = tuning_of(kOp, {measured("library,algorithm=8", 10),
                                        measured("tiles,algorithm=1", 11), measured("tiles", 20)});
  EXPECT_EQ(auto_schedule(parse_segment(kOp), default_machine(2), tuning).schedule,
            schedule_of("tiles", kOp));
}

}  // namespace
}  // namespace stretto

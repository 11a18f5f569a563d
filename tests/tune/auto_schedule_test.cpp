// What `auto` takes: the fastest measured, of the nearest shape, that serves.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stretto/tune.h"
#include "tune/near_measurements.h"
#include "tune/predict.h"
#include "tune/weighed.h"

namespace stretto {
namespace {

using testing::HasSubstr;

TunedOperator tuned_of(const std::string& op, std::vector<Measured> measured,
                       const std::string& machine = "h200x8") {
  TunedOperator tuned;
  tuned.op = parse_segment(op);
  tuned.machine = machine;
  tuned.library_us = 100;
  tuned.measured = std::move(measured);
  return tuned;
}

Measured measured(const std::string& schedule, double us) { return {schedule, us, us, us, {}, {}}; }

AutoSchedule choose(const std::string& op_text, const Tuning& tuning) {
  const Segment op = parse_segment(op_text);
  return auto_schedule(op, default_machine(op.ranks), tuning);
}

Schedule schedule_of(const std::string& text, const std::string& op_text) {
  const Segment op = parse_segment(op_text);
  return parse_schedule(text, op, default_machine(op.ranks));
}

constexpr const char* kSmall = "gemm-rs m=512 n=1024 k=1024 ranks=2 dtype=bf16";
constexpr const char* kLarge = "gemm-rs m=8192 n=1024 k=1024 ranks=2 dtype=bf16";

Tuning two_shapes() {
  Tuning tuning;
  tuning.add(tuned_of(kSmall, {measured("sequential", 50), measured("tiles,comm-sms=4", 40)}));
  tuning.add(tuned_of(kLarge, {measured("decomposed", 60), measured("sequential", 90)}));
  return tuning;
}

TEST(AutoSchedule, TakesTheFastestOfTheShape) {
  const AutoSchedule found = choose(kSmall, two_shapes());
  EXPECT_EQ(found.schedule, schedule_of("tiles,comm-sms=4", kSmall));
  EXPECT_THAT(found.reason, HasSubstr("fastest of 2 measured on this shape: 40.0 us, 2.50x"));
}

TEST(ServedSchedule, TakesTheNearestShapeByFactors) {
  const auto nearest = [](const char* text) {
    return served_schedule(parse_segment(text), default_machine(2), two_shapes());
  };
  const AutoSchedule small = nearest("gemm-rs m=1024 n=1024 k=1024 ranks=2 dtype=fp16");
  EXPECT_EQ(small.schedule.comm_sms, 4);
  EXPECT_EQ(small.schedule.partials, DType::fp16);
  EXPECT_THAT(small.reason, HasSubstr("measured on m=512"));
  EXPECT_EQ(nearest("gemm-rs m=4096 n=1024 k=1024 ranks=2 dtype=bf16").schedule.granularity,
            Granularity::chunk);
}

TEST(WeighedSchedules, AreWhatAutoChoosesFromFastestFirst) {
  const Segment op = parse_segment(kSmall);
  const auto measured_here = weighed_schedules(op, default_machine(2), two_shapes());
  ASSERT_EQ(measured_here.size(), 3u);  // and the library beside them
  EXPECT_EQ(measured_here[0].schedule, choose(kSmall, two_shapes()).schedule);
  EXPECT_TRUE(measured_here[0].is_measured);
  EXPECT_EQ(measured_here[1].us, 50);
  EXPECT_EQ(measured_here[2].us, 100);
  const char* other = "gemm-rs m=1024 n=1024 k=1024 ranks=2 dtype=bf16";
  const auto expected = weighed_schedules(parse_segment(other), default_machine(2), two_shapes());
  ASSERT_GT(expected.size(), 5u);
  EXPECT_EQ(expected[0].schedule, choose(other, two_shapes()).schedule);
  EXPECT_FALSE(expected[0].is_measured);
  EXPECT_LE(expected[0].us, expected[1].us);
}

// What is near says how far off the simulation is, of the very schedule and of its kind.
TEST(AutoSchedule, CorrectsTheSimulationByWhatIsNear) {
  const char* near = "gemm-rs m=512 n=1024 k=2048 ranks=2 dtype=bf16";
  const std::string narrow = "tiles,tile=128x64", wide = "tiles,tile=128x128";
  for (const bool narrow_is_slow : {true, false}) {
    Tuning tuning;
    tuning.add(
        tuned_of(near, {measured(narrow_is_slow ? wide : narrow, 10),
                        measured(narrow_is_slow ? narrow : wide, 12), measured("few-rows", 20)}));
    const AutoSchedule found = choose(kSmall, tuning);
    EXPECT_EQ(found.schedule, schedule_of(narrow_is_slow ? wide : narrow, kSmall));
    EXPECT_THAT(found.reason, HasSubstr("measured on m=512 n=1024 k=2048 with 2 ranks"));
  }
  Tuning fast_kind;
  fast_kind.add(tuned_of(near, {measured("decomposed", 1)}));
  EXPECT_EQ(choose(kSmall, fast_kind).schedule.granularity, Granularity::chunk);
}

// What one shape says of a schedule, nearer ones can gainsay.
TEST(AutoSchedule, HearsTheNearestMost) {
  const char* near = "gemm-rs m=512 n=1024 k=1152 ranks=2 dtype=bf16";
  const char* far = "gemm-rs m=4096 n=2048 k=2048 ranks=2 dtype=bf16";
  const std::string narrow = "tiles,tile=128x64", wide = "tiles,tile=128x128";
  for (const bool near_likes_narrow : {true, false}) {
    Tuning tuning;
    tuning.add(tuned_of(far, {measured(near_likes_narrow ? wide : narrow, 50),
                              measured(near_likes_narrow ? narrow : wide, 100)}));
    tuning.add(tuned_of(near, {measured(near_likes_narrow ? narrow : wide, 5),
                               measured(near_likes_narrow ? wide : narrow, 10)}));
    EXPECT_EQ(choose(kSmall, tuning).schedule,
              schedule_of(near_likes_narrow ? narrow : wide, kSmall));
  }
}

// The fastest of many guesses is one that was too good: less known, it would have to be faster.
TEST(AutoSchedule, PrefersWhatWasMeasured) {
  const Segment op = parse_segment(kSmall);
  const Machine machine = default_machine(2);
  const char* near = "gemm-rs m=512 n=1024 k=1088 ranks=2 dtype=bf16";
  const Schedule fastest = simulated_schedule(op, machine, {}).schedule;
  const Schedule other = schedule_of("tiles,tile=128x96", near);
  const std::vector<double> us = predicted_us(op, {fastest, other}, machine);
  ASSERT_NE(fastest, other);
  ASSERT_LT(us[0], us[1]);
  // As if it were 3 % faster than what is simulated to be the fastest; nothing else is known.
  Tuning tuning;
  tuning.add(tuned_of(near, {measured(to_string(other), us[0] * 0.97)}));
  tuning.add(tuned_of("gemm-rs m=512 n=1024 k=1216 ranks=2 dtype=bf16",
                      {measured("library", us[0] * 100)}));
  EXPECT_EQ(choose(kSmall, tuning).schedule, other);
}

// Nobody gets less than the library path where it was measured; buckets cannot take it.
TEST(AutoSchedule, TakesTheLibraryWhereThatWasFastest) {
  const Segment op = parse_segment(kSmall);
  Tuning tuning;
  tuning.add(tuned_of(kSmall, {measured("tiles", 120), measured("tiles,tile=128x64", 125)}));
  const AutoSchedule found = choose(kSmall, tuning);
  EXPECT_EQ(found.schedule, schedule_of("library", kSmall));
  EXPECT_THAT(found.reason, HasSubstr("cuBLAS and NCCL took 100.0 us"));
  EXPECT_EQ(auto_schedule(op, default_machine(2), tuning, RowCount::bucket).schedule,
            schedule_of("tiles,rows=bucket", kSmall));
  // Near it too, also where it was measured as a schedule, and with other ranks.
  tuning.add(tuned_of(
      kSmall, {measured("library", 100), measured("sequential", 101), measured("tiles", 120),
               measured("tiles,tile=128x64", 125), measured("few-rows", 130)}));
  EXPECT_EQ(choose("gemm-rs m=512 n=1024 k=1152 ranks=2 dtype=bf16", tuning).schedule.gemm,
            GemmBy::library);
  EXPECT_EQ(choose("gemm-rs m=512 n=1024 k=2048 ranks=4 dtype=bf16", tuning).schedule.gemm,
            GemmBy::library);
}

TEST(AutoSchedule, PassesOverWhatCannotServe) {
  Tuning tuning;
  tuning.add(tuned_of(kSmall, {measured("slices,comm-sms=200", 10), measured("tiles", 20)}));
  EXPECT_EQ(choose(kSmall, tuning).schedule.granularity, Granularity::tile);
}

TEST(MeasuredSchedule, OfBucketsPassesOverCollectives) {
  const Segment large = parse_segment(kLarge);
  Tuning tuning;
  tuning.add(tuned_of(kLarge, {measured("sequential", 10), measured("decomposed", 60)}));
  const auto found = measured_schedule(large, default_machine(2), tuning, RowCount::bucket);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->schedule, schedule_of("decomposed,rows=bucket", kLarge));
  EXPECT_THAT(found->reason, HasSubstr("the fastest that can serve this of 2 measured on this"));
  EXPECT_FALSE(measured_schedule(large, default_machine(2), Tuning()).has_value());
}

TEST(SimulatedSchedule, OfABucketServesIt) {
  for (const char* text : {"ag-gemm m=512 n=1024 k=1024 ranks=2 dtype=bf16", kSmall,
                           "gemm-ar m=512 n=1024 k=1024 ranks=2 dtype=bf16"}) {
    const Segment op = parse_segment(text);
    const Machine machine = default_machine(2);
    const AutoSchedule found = simulated_schedule(op, machine, {}, RowCount::bucket);
    EXPECT_EQ(found.schedule.rows, RowCount::bucket);
    EXPECT_THAT(legal(op, found.schedule, machine), testing::IsEmpty());
    const bool by_nccl =
        found.schedule.mover == Mover::nccl && found.schedule.collectives == CollectivesBy::nccl;
    EXPECT_FALSE(by_nccl);
    EXPECT_THAT(found.reason, HasSubstr("by simulation"));
  }
}

TEST(AutoSchedule, OtherKindsAndMachinesDoNotCount) {
  Tuning tuning;
  tuning.add(tuned_of("gemm-ar m=512 n=1024 k=1024 ranks=2 dtype=bf16", {measured("tiles", 1)}));
  tuning.add(tuned_of(kSmall, {measured("tiles", 1)}, "h100x8"));
  EXPECT_THAT(choose(kSmall, tuning).reason, HasSubstr("by simulation, "));
}

TEST(SimulatedSchedule, SaysThePredictedTimeWhereNothingIsKnown) {
  const char* gather = "ag-gemm m=512 n=1024 k=1024 ranks=2 dtype=bf16";
  const AutoSchedule found = choose(gather, {});
  const double us = predicted_us(parse_segment(gather), {found.schedule}, default_machine(2))[0];
  EXPECT_THAT(found.reason, HasSubstr(fmt::format("simulation, {:.1f} us", us)));
}

// The simulation takes narrow tiles for the fastest; with four ranks, each of which multiplies as
// much as each of two here, wide ones were.
TEST(SimulatedSchedule, LearnsFromOtherRanksWhatTheSimulationGetsWrong) {
  const char* four = "gemm-rs m=512 n=1024 k=2048 ranks=4 dtype=bf16";
  const std::string narrow = "tiles,tile=128x64", wide = "tiles,tile=128x128";
  const std::vector<double> there =
      predicted_us(parse_segment(four), {schedule_of(narrow, four), schedule_of(wide, four)},
                   default_machine(4));
  ASSERT_LT(there[0], there[1]);
  Tuning tuning;
  tuning.add(tuned_of(four, {measured(wide, there[1] / 2), measured(narrow, there[1]),
                             measured("low-latency", there[1] * 10)}));
  const AutoSchedule found = choose(kSmall, tuning);
  EXPECT_EQ(found.schedule, schedule_of(wide, kSmall));
  EXPECT_THAT(found.reason, HasSubstr("measured on m=512 n=1024 k=2048 with 4 ranks"));
  // Far from it, or across nodes, it says nothing.
  EXPECT_THAT(choose("gemm-rs m=4096 n=8192 k=1024 ranks=2 dtype=bf16", tuning).reason,
              HasSubstr("nothing like it was measured"));
  EXPECT_THAT(choose("gemm-rs m=512 n=1024 k=8192 ranks=16 dtype=bf16", tuning).reason,
              HasSubstr("nothing like it was measured"));
}

// The kernel of few rows is simulated faster than cuBLAS in its place, and is taken where nothing
// is known of it; what was measured near says otherwise. Of a bucket it cannot leave out rows.
TEST(SimulatedSchedule, TakesFewRowsUnlessTheyWereSlowNear) {
  const char* text = "gemm-ar m=64 n=8192 k=8192 ranks=2 dtype=bf16";
  const char* near = "gemm-ar m=64 n=8192 k=7168 ranks=2 dtype=bf16";
  const Segment op = parse_segment(text);
  const Schedule few = schedule_of("few-rows", text), cublas = schedule_of("low-latency", text);
  ASSERT_EQ(few.gemm, GemmBy::few_rows);
  Tuning slow, fast;
  slow.add(tuned_of(near, {measured("few-rows", 29), measured("low-latency", 24)}));
  fast.add(tuned_of(near, {measured("few-rows", 19), measured("low-latency", 24)}));
  EXPECT_EQ(choose(text, {}).schedule, few);
  EXPECT_FALSE(choose(text, {}).sureness.is_sure());
  EXPECT_EQ(choose(text, slow).schedule, cublas);
  EXPECT_EQ(choose(text, fast).schedule, few);
  EXPECT_EQ(auto_schedule(op, default_machine(2), fast, RowCount::bucket).schedule.gemm,
            GemmBy::library);
}

TEST(ServedSchedule, HearsNothingOfWhatIsFar) {
  // Four times the rows of the large one is near, with twice the columns it is not.
  const auto reason = [](const char* text) {
    return served_schedule(parse_segment(text), default_machine(2), two_shapes()).reason;
  };
  EXPECT_THAT(reason("gemm-rs m=32768 n=1024 k=1024 ranks=2 dtype=bf16"),
              HasSubstr("measured on m=8192"));
  EXPECT_THAT(reason("gemm-rs m=32768 n=2048 k=1024 ranks=2 dtype=bf16"),
              HasSubstr("nothing that serves was measured"));
}

// 28,672 columns of a rank are twice the most that was measured. On two H200s tiles took 1441 us
// with own rows first, 1701 in the order of arrival, which reads all of B for each row of tiles,
// and cuBLAS beside copy engines 1500.
TEST(SimulatedSchedule, TakesOwnRowsFirstWhereColumnsAreBeyondAllMeasured) {
  const Segment wide = parse_segment("ag-gemm m=2048 n=57344 k=8192 ranks=2 dtype=bf16");
  const Schedule taken = auto_schedule(wide, default_machine(2), load_tuning()).schedule;
  EXPECT_EQ(taken.gemm, GemmBy::tiles);
  EXPECT_EQ(taken.order, Order::own_first);
  const Segment usual = parse_segment("ag-gemm m=4000 n=20480 k=8192 ranks=2 dtype=bf16");
  EXPECT_NE(auto_schedule(usual, default_machine(2), load_tuning()).schedule.gemm, GemmBy::library);
}

TEST(AutoSchedule, ChoosesForMachinesAndRankCountsThatNobodyMeasured) {
  for (const char* text : {"gemm-rs m=768 n=1024 k=1536 ranks=3 dtype=bf16",
                           "ag-gemm m=1024 n=4096 k=1024 ranks=16 dtype=bf16"}) {
    const Segment op = parse_segment(text);
    EXPECT_TRUE(legal(op, choose(text, load_tuning()).schedule, default_machine(op.ranks)).empty());
  }
  const Segment op = parse_segment("gemm-ar m=1024 n=1024 k=2048 ranks=8 dtype=bf16");
  const Machine pcie = load_machine("a100x8-pcie");
  EXPECT_TRUE(legal(op, auto_schedule(op, pcie, load_tuning()).schedule, pcie).empty());
}

// Only of gathers has anything to lead cuBLAS beside copies, which is PyTorch's gather: of others
// what is expected is what is simulated.
TEST(AutoSchedule, ExpectsWhatIsSimulatedWhereNothingLikeItWasMeasured) {
  for (const char* text : {"col-gemm m=4096 n=4096 k=2048 ranks=2 dtype=bf16",
                           "gemm-a2a m=4096 n=4096 k=2048 ranks=2 dtype=bf16"}) {
    const Segment op = parse_segment(text);
    const Machine machine = default_machine(op.ranks);
    Predictions predictions(machine);
    const ExpectedNearby found =
        expected_nearby(op, Tuning{}, machine, RowCount::fixed, RowsFrom::host, predictions);
    ASSERT_FALSE(found.schedules.empty());
    for (const Expectation& one : found.schedules) {
      EXPECT_DOUBLE_EQ(one.us, predictions.us(op, {one.schedule})[0]) << text;
    }
  }
}

}  // namespace
}  // namespace stretto

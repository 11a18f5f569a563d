// What `auto` takes: the fastest measured, of the nearest shape, that serves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "stretto/error.h"
#include "stretto/tune.h"
#include "tune/predict.h"

namespace stretto {
namespace {

using testing::HasSubstr;

TunedOperator tuned_of(const std::string& op, std::vector<Measured> measured,
                       const std::string& machine = "h200x8") {
  TunedOperator tuned;
  tuned.op = parse_operator(op);
  tuned.machine = machine;
  tuned.library_us = 100;
  tuned.measured = std::move(measured);
  return tuned;
}

Measured measured(const std::string& schedule, double us) { return {schedule, us, us, us, {}, {}}; }

AutoSchedule choose(const std::string& op_text, const Tuning& tuning) {
  const Operator op = parse_operator(op_text);
  return auto_schedule(op, default_machine(op.ranks), tuning);
}

Schedule schedule_of(const std::string& text, const std::string& op_text) {
  const Operator op = parse_operator(op_text);
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
    return served_schedule(parse_operator(text), default_machine(2), two_shapes());
  };
  const AutoSchedule small = nearest("gemm-rs m=1024 n=1024 k=1024 ranks=2 dtype=fp16");
  EXPECT_EQ(small.schedule.comm_sms, 4);
  EXPECT_EQ(small.schedule.partials, DType::fp16);
  EXPECT_THAT(small.reason, HasSubstr("measured on m=512"));
  EXPECT_EQ(nearest("gemm-rs m=4096 n=1024 k=1024 ranks=2 dtype=bf16").schedule.granularity,
            Granularity::chunk);
}

// What is near says how far off the simulation is, of the very schedule and of its kind.
TEST(AutoSchedule, CorrectsTheSimulationByWhatIsNear) {
  const char* near = "gemm-rs m=512 n=1024 k=2048 ranks=2 dtype=bf16";
  const std::string narrow = "tiles,tile=128x64", wide = "tiles,tile=128x128";
  for (const bool narrow_is_slow : {true, false}) {
    Tuning tuning;
    tuning.add(tuned_of(near, {measured(narrow_is_slow ? wide : narrow, 10),
                               measured(narrow_is_slow ? narrow : wide, 12)}));
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
  const Operator op = parse_operator(kSmall);
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
  const Operator op = parse_operator(kSmall);
  Tuning tuning;
  tuning.add(tuned_of(kSmall, {measured("tiles", 120), measured("tiles,tile=128x64", 125)}));
  const AutoSchedule found = choose(kSmall, tuning);
  EXPECT_EQ(found.schedule, schedule_of("library", kSmall));
  EXPECT_THAT(found.reason, HasSubstr("cuBLAS and NCCL took 100.0 us"));
  EXPECT_EQ(auto_schedule(op, default_machine(2), tuning, RowCount::bucket).schedule,
            schedule_of("tiles,rows=bucket", kSmall));
  // Near it too, also where it was measured as a schedule, and with other ranks.
  tuning.add(tuned_of(kSmall, {measured("library", 100), measured("sequential", 101),
                               measured("tiles", 120), measured("tiles,tile=128x64", 125)}));
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
  const Operator large = parse_operator(kLarge);
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
    const Operator op = parse_operator(text);
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

TEST(AutoSchedule, OtherKindsAndMachinesDoNotCount) {
  Tuning tuning;
  tuning.add(tuned_of("gemm-ar m=512 n=1024 k=1024 ranks=2 dtype=bf16", {measured("tiles", 1)}));
  tuning.add(tuned_of(kSmall, {measured("tiles", 1)}, "h100x8"));
  EXPECT_THAT(choose(kSmall, tuning).reason, HasSubstr("by simulation, "));
}

// The simulation takes narrow tiles for the fastest; with four ranks, each of which multiplies as
// much as each of two here, wide ones were.
TEST(SimulatedSchedule, LearnsFromOtherRanksWhatTheSimulationGetsWrong) {
  const char* four = "gemm-rs m=512 n=1024 k=2048 ranks=4 dtype=bf16";
  const std::string narrow = "tiles,tile=128x64", wide = "tiles,tile=128x128";
  const std::vector<double> there =
      predicted_us(parse_operator(four), {schedule_of(narrow, four), schedule_of(wide, four)},
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

TEST(ServedSchedule, HearsNothingOfWhatIsFar) {
  // Four times the rows of the large one is near, with twice the columns it is not.
  const auto reason = [](const char* text) {
    return served_schedule(parse_operator(text), default_machine(2), two_shapes()).reason;
  };
  EXPECT_THAT(reason("gemm-rs m=32768 n=1024 k=1024 ranks=2 dtype=bf16"),
              HasSubstr("measured on m=8192"));
  EXPECT_THAT(reason("gemm-rs m=32768 n=2048 k=1024 ranks=2 dtype=bf16"),
              HasSubstr("nothing that serves was measured"));
}

TEST(AutoSchedule, ChoosesForMachinesAndRankCountsThatNobodyMeasured) {
  for (const char* text : {"gemm-rs m=768 n=1024 k=1536 ranks=3 dtype=bf16",
                           "ag-gemm m=1024 n=4096 k=1024 ranks=16 dtype=bf16"}) {
    const Operator op = parse_operator(text);
    EXPECT_TRUE(legal(op, choose(text, load_tuning()).schedule, default_machine(op.ranks)).empty());
  }
  const Operator op = parse_operator("gemm-ar m=1024 n=1024 k=2048 ranks=8 dtype=bf16");
  const Machine pcie = load_machine("a100x8-pcie");
  EXPECT_TRUE(legal(op, auto_schedule(op, pcie, load_tuning()).schedule, pcie).empty());
}

TEST(SweepCandidates, BeginWithThePresetsAndAllServe) {
  const Operator op = parse_operator(kLarge);
  const Machine machine = default_machine(2);
  const auto candidates = sweep_candidates(op, machine, 3);
  ASSERT_GT(candidates.size(), 3u + 3u);
  EXPECT_EQ(candidates.front().schedule, find_preset("sequential").make(op, machine));
  const Schedule fused = schedule_of("tiles,order=interleaved,comm-sms=0,tile=128x192", kLarge);
  EXPECT_TRUE(std::any_of(candidates.begin(), candidates.end(),
                          [&](const Candidate& c) { return c.schedule == fused; }));
  for (size_t i = 0; i < candidates.size(); ++i) {
    EXPECT_TRUE(legal(op, candidates[i].schedule, machine).empty());
    EXPECT_GT(candidates[i].predicted_us, 0);
    for (size_t j = 0; j < i; ++j) EXPECT_NE(candidates[i].schedule, candidates[j].schedule);
  }
}

TEST(SweepCandidates, OfAnOperatorThatNothingServesAreRefusedWithThePresetsReasons) {
  const Operator op = parse_operator("gemm-rs m=128 n=64 k=64 ranks=16 dtype=bf16");
  try {
    sweep_candidates(op, load_machine("h200x8"), 3);
    ADD_FAILURE() << "served";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("no preset can serve this: sequential: 16 ranks on h200x8"));
  }
}

TEST(SweepCandidates, SplitKWhereFewTilesHaveALongOne) {
  const auto splits = [](const char* text) {
    const Operator op = parse_operator(text);
    std::vector<int> found;
    for (const Candidate& one : sweep_candidates(op, default_machine(op.ranks), 0)) {
      if (one.schedule.split_k > 1) found.push_back(one.schedule.split_k);
    }
    return found;
  };
  using testing::Contains;
  using testing::ElementsAre;
  EXPECT_THAT(splits("ag-gemm m=128 n=10240 k=8192 ranks=8 dtype=bf16"),
              testing::IsSupersetOf({4, 6}));
  EXPECT_THAT(splits("gemm-rs m=512 n=1280 k=65536 ranks=8 dtype=bf16"), Contains(3));
  EXPECT_THAT(splits("ag-gemm m=128 n=10240 k=1024 ranks=8 dtype=bf16"), ElementsAre());
}

TEST(SweepCandidates, ClustersWhereGathersHaveMoreThanAWave) {
  const auto paired = [](const char* text) {
    const Operator op = parse_operator(text);
    const Machine machine = default_machine(op.ranks);
    std::vector<Schedule> found;
    for (const Candidate& one : sweep_candidates(op, machine, 0)) {
      if (one.schedule.cluster == 2) found.push_back(one.schedule);
    }
    return found;
  };
  const std::vector<Schedule> large = paired("ag-gemm m=2048 n=57344 k=8192 ranks=8 dtype=bf16");
  EXPECT_EQ(large.size(), 2u);
  EXPECT_TRUE(std::any_of(large.begin(), large.end(), [](const Schedule& one) {
    return one.tile_n == 256 && one.comm_sms == 8 && one.k_phases == 8 && one.start == Start::wave;
  }));
  // One wave; tile rows that have no partner; sums of others.
  EXPECT_TRUE(paired("ag-gemm m=256 n=28672 k=8192 ranks=8 dtype=bf16").empty());
  EXPECT_TRUE(paired("ag-gemm m=2100 n=57344 k=8192 ranks=8 dtype=bf16").empty());
  EXPECT_TRUE(paired("gemm-rs m=8192 n=8192 k=28672 ranks=8 dtype=bf16").empty());
}

TEST(SweepCandidates, PhasesOfKWhereTheFirstRowsFlightIsExposed) {
  const auto phased = [](const char* text) {
    const Operator op = parse_operator(text);
    const Machine machine = default_machine(op.ranks);
    std::vector<Schedule> found;
    for (const Candidate& one : sweep_candidates(op, machine, 0)) {
      if (one.schedule.k_phases > 1) found.push_back(one.schedule);
    }
    return found;
  };
  const std::vector<Schedule> one_wave = phased("ag-gemm m=512 n=28672 k=8192 ranks=4 dtype=bf16");
  EXPECT_GE(one_wave.size(), 3u);
  EXPECT_LE(one_wave.size(), 9u);
  const auto has = [](const std::vector<Schedule>& found, int tile_n, int phases) {
    return std::any_of(found.begin(), found.end(), [&](const Schedule& one) {
      return one.tile_n == tile_n && one.comm_sms == 8 && one.k_phases == phases;
    });
  };
  EXPECT_TRUE(has(one_wave, 256, 8));
  EXPECT_TRUE(has(phased("ag-gemm m=512 n=14336 k=4096 ranks=4 dtype=bf16"), 128, 4));
  // Nothing is sent; results are; own rows take longer than the flight.
  EXPECT_TRUE(phased("ag-gemm m=512 n=3584 k=4096 ranks=1 dtype=bf16").empty());
  EXPECT_TRUE(phased("gemm-rs m=512 n=4096 k=7168 ranks=4 dtype=bf16").empty());
  EXPECT_TRUE(phased("ag-gemm m=4096 n=14336 k=1024 ranks=2 dtype=bf16").empty());
}

}  // namespace
}  // namespace stretto

// What a sweep measures: the presets, what was fastest elsewhere, what the simulation finds fast.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "stretto/error.h"
#include "stretto/tune.h"
#include "tune/usual_schedules.h"

namespace stretto {
namespace {

using testing::HasSubstr;

TEST(SweepCandidates, BeginWithThePresetsAndAllServe) {
  const Segment op = parse_segment("gemm-rs m=8192 n=1024 k=1024 ranks=2 dtype=bf16");
  const Machine machine = default_machine(2);
  const auto candidates = sweep_candidates(op, machine, 3);
  ASSERT_GT(candidates.size(), 3u + 3u);
  EXPECT_EQ(candidates.front().schedule, find_preset("sequential").make(op, machine));
  const Schedule fused =
      parse_schedule("tiles,order=interleaved,comm-sms=0,tile=128x192", op, machine);
  EXPECT_TRUE(std::any_of(candidates.begin(), candidates.end(),
                          [&](const Candidate& c) { return c.schedule == fused; }));
  for (size_t i = 0; i < candidates.size(); ++i) {
    EXPECT_TRUE(legal(op, candidates[i].schedule, machine).empty());
    EXPECT_GT(candidates[i].predicted_us, 0);
    for (size_t j = 0; j < i; ++j) EXPECT_NE(candidates[i].schedule, candidates[j].schedule);
  }
}

TEST(SweepCandidates, OfAnOperatorThatNothingServesAreRefusedWithThePresetsReasons) {
  const Segment op = parse_segment("gemm-rs m=128 n=64 k=64 ranks=16 dtype=bf16");
  try {
    sweep_candidates(op, load_machine("h200x8"), 3);
    ADD_FAILURE() << "served";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("no preset can serve this: sequential, library, low-latency, few-rows, "
                          "two-chunk, decomposed, waves, tiles, slices: 16 ranks on h200x8"));
  }
}

TEST(SweepCandidates, SplitKWhereFewTilesHaveALongOne) {
  const auto splits = [](const char* text) {
    const Segment op = parse_segment(text);
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
    const Segment op = parse_segment(text);
    const Machine machine = default_machine(op.ranks);
    std::vector<Schedule> found;
    for (const Candidate& one : sweep_candidates(op, machine, 0)) {
      if (one.schedule.cluster == 2) found.push_back(one.schedule);
    }
    return found;
  };
  const std::vector<Schedule> large = paired("ag-gemm m=2048 n=57344 k=8192 ranks=8 dtype=bf16");
  EXPECT_EQ(large.size(), 3u);
  EXPECT_TRUE(std::any_of(large.begin(), large.end(), [](const Schedule& one) {
    return one.tile_n == 256 && one.comm_sms == 4 && one.k_phases == 8 && one.start == Start::wave;
  }));
  // One wave; tile rows that have no partner; sums of others.
  EXPECT_TRUE(paired("ag-gemm m=256 n=28672 k=8192 ranks=8 dtype=bf16").empty());
  EXPECT_TRUE(paired("ag-gemm m=2100 n=14336 k=8192 ranks=8 dtype=bf16").empty());
  EXPECT_TRUE(paired("gemm-rs m=2048 n=8192 k=28672 ranks=8 dtype=bf16").empty());
}

TEST(SweepCandidates, PhasesOfKWhereTheFirstRowsFlightIsExposed) {
  const auto phased = [](const char* text) {
    const Segment op = parse_segment(text);
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

TEST(SweepCandidates, BehindAnAllToAllTilesBeginWithTheirRanksColumns) {
  const auto by_source = [](const char* text, Mover mover) {
    const Segment op = parse_segment(text);
    std::vector<int> found;
    for (const Candidate& one : sweep_candidates(op, default_machine(op.ranks), 0)) {
      if (one.schedule.mover == mover && one.schedule.k_phases > 1) {
        found.push_back(one.schedule.k_phases);
      }
    }
    return found;
  };
  using testing::AllOf;
  using testing::Each;
  using testing::IsEmpty;
  using testing::Not;
  const char* op = "a2a-gemm m=4096 n=4096 k=4096 ranks=2 dtype=bf16";
  EXPECT_THAT(by_source(op, Mover::comm_blocks), AllOf(Not(IsEmpty()), Each(2)));
  EXPECT_THAT(by_source(op, Mover::copy_engine), AllOf(Not(IsEmpty()), Each(2)));
  for (const Schedule& one :
       usual_schedules(parse_segment(op), default_machine(2), RowCount::fixed)) {
    EXPECT_NE(one.granularity, Granularity::tile) << to_string(one);
  }
  // Ranks have no whole steps of K.
  EXPECT_THAT(by_source("a2a-gemm m=4096 n=4096 k=4160 ranks=2 dtype=bf16", Mover::comm_blocks),
              IsEmpty());
}

}  // namespace
}  // namespace stretto

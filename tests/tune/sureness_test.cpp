// `auto` says how sure it is, and what is not sure has a shortlist worth measuring.
#include "tune/sureness.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "stretto/error.h"
#include "tune/nearness.h"
#include "tune/shortlist.h"

namespace stretto {
namespace {

using testing::HasSubstr;

class SurenessOfAuto : public testing::Test {
 protected:
  AutoSchedule chosen(const char* op, RowCount rows = RowCount::fixed) const {
    return auto_schedule(parse_segment(op), machine_, shipped_, rows);
  }
  std::vector<Schedule> listed(const Segment& op, RowCount rows, size_t most) const {
    Predictions predictions(machine_);
    return shortlist(op, machine_, shipped_, rows, most, predictions);
  }

  const Machine machine_ = load_machine("h200x8");
  const Tuning shipped_ = shipped_tuning();
};

TEST_F(SurenessOfAuto, IsThatOfItsMeasurementsOnTheOperator) {
  const AutoSchedule found = chosen("gemm-rs m=1024 n=8192 k=7168 ranks=2 dtype=bf16");
  EXPECT_EQ(found.sureness.by, Evidence::measured);
  EXPECT_TRUE(found.sureness.is_sure());
  EXPECT_THAT(found.reason, HasSubstr("measured on this shape"));
  EXPECT_THAT(found.reason, HasSubstr("; sure within "));
}

TEST_F(SurenessOfAuto, FallsWithTheDistanceAndRisesWithTheLead) {
  const Segment few{kGemmRs, 64, 4096, 4096, 2, DType::bf16},
      many{kGemmRs, 4096, 4096, 4096, 2, DType::bf16};
  EXPECT_TRUE(sure_elsewhere(few, 0.5, 0.5).is_sure());
  EXPECT_FALSE(sure_elsewhere(few, 0.5, 0.01).is_sure());
  EXPECT_FALSE(sure_elsewhere(few, HUGE_VAL, 0.5).is_sure()) << "nothing near was measured";
  EXPECT_FALSE(sure_elsewhere(many, 0.5, 0.5).is_sure());
  EXPECT_LT(sure_elsewhere(many, 0.5, 0.5).within, sure_elsewhere(many, 2, 0.5).within);
  EXPECT_EQ(sure_elsewhere(many, 0.5, 0.5).by, Evidence::near);
  EXPECT_EQ(sure_elsewhere(many, HUGE_VAL, 0.5).by, Evidence::predicted);
}

TEST_F(SurenessOfAuto, OfAMeasurementIsItsSpread) {
  EXPECT_DOUBLE_EQ(sure_by_measurement({"tiles", 100, 95, 120, {}, {}}).within, 0.05);
  EXPECT_DOUBLE_EQ(sure_by_measurement({"tiles", 100, 100, 100, {}, {}}).within, 0.01);
  EXPECT_EQ(to_string(Sureness{Evidence::near, 0.11}), "sure within 11 %");
}

TEST_F(SurenessOfAuto, LeadsAreOverWhatWorksInAnotherWay) {
  const Segment op{kGemmRs, 1024, 4096, 4096, 2, DType::bf16};
  const Schedule tiles = find_preset("tiles").make(op, machine_);
  Schedule narrow = tiles;
  narrow.tile_n = 128;
  const Schedule library = find_preset("library").make(op, machine_);
  EXPECT_DOUBLE_EQ(lead_of(tiles, 100, {{tiles, 100}, {narrow, 101}, {library, 150}}), 0.5);
  EXPECT_DOUBLE_EQ(lead_of(tiles, 100, {{tiles, 100}, {narrow, 101}}), 1);
}

TEST_F(SurenessOfAuto, IsThatOfTheLeastSureProduct) {
  const Operator mlp =
      make_operator("mlp", {{"m", 1000}, {"h", 4608}, {"f", 12288}}, 2, DType::bf16);
  const AutoSchedules found = auto_schedules(mlp, machine_, shipped_);
  EXPECT_GT(found.sureness.within, 0.03);
  EXPECT_LE(found.sureness.within, 1);
}

TEST_F(SurenessOfAuto, ShortlistsBeginWithTheChoiceAndHoldTheLibrary) {
  for (const ProductKind kind : {kAgGemm, kGemmRs, kGemmAr}) {
    for (const RowCount rows : {RowCount::fixed, RowCount::bucket}) {
      const Segment op{kind, 1024, 4608, 5120, 2, DType::bf16};
      const std::vector<Schedule> found = listed(op, rows, 5);
      ASSERT_EQ(found.size(), 5u);
      EXPECT_EQ(found.front(), auto_schedule(op, machine_, shipped_, rows).schedule);
      EXPECT_TRUE(std::any_of(found.begin(), found.end(),
                              [](const Schedule& one) { return one.gemm == GemmBy::library; }));
      if (rows == RowCount::fixed) {
        const Schedule library = find_preset("library").make(op, machine_);
        EXPECT_TRUE(found[0] == library || found[1] == library) << to_string(found[1]);
      }
      for (size_t i = 0; i < found.size(); ++i) {
        EXPECT_EQ(found[i].rows, rows);
        EXPECT_TRUE(legal(op, found[i], machine_).empty());
        for (size_t other = 0; other < i; ++other) EXPECT_NE(found[i], found[other]);
      }
    }
  }
}

// Low-latency collectives lead by far, and four schedules are a choice.
TEST_F(SurenessOfAuto, ShortlistsHoldNothingHopeless) {
  const Segment op{kGemmAr, 2, 8192, 29568, 8, DType::bf16};
  const std::vector<Schedule> found = listed(op, RowCount::fixed, 8);
  EXPECT_EQ(found.size(), 4u);
  EXPECT_EQ(found.front().collectives, CollectivesBy::low_latency);
}

TEST_F(SurenessOfAuto, ShortlistsOfOneAreTheChoice) {
  const Segment op{kGemmRs, 1024, 4608, 5120, 2, DType::bf16};
  const std::vector<Schedule> found = listed(op, RowCount::bucket, 1);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0], served_schedule(op, machine_, shipped_).schedule);
}

}  // namespace
}  // namespace stretto

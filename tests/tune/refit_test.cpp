// Candidates that no neighbour proposes as they are: tiles as wide as a wave needs, phases of K.
#include "tune/refit.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "stretto/tune.h"
#include "tune/weighed.h"

namespace stretto {
namespace {

constexpr const char* kWide = "ag-gemm m=512 n=14336 k=8192 ranks=2 dtype=bf16";
constexpr const char* kNarrow = "ag-gemm m=512 n=12288 k=8192 ranks=2 dtype=bf16";

class Refitted : public testing::Test {
 protected:
  Schedule parsed(const char* text, const char* op) const {
    return parse_schedule(text, parse_segment(op), machine_);
  }
  std::optional<Schedule> refit(const char* text, const char* op) const {
    return refitted(parsed(text, op), parse_segment(op), machine_);
  }
  bool is_candidate(const char* text, const char* op, const Tuning& tuning) const {
    const auto all = weighed_schedules(parse_segment(op), machine_, tuning);
    return std::any_of(all.begin(), all.end(), [&](const WeighedSchedule& one) {
      return one.schedule == parsed(text, op);
    });
  }

  const Machine machine_ = load_machine("h200x8");
};

Tuning tuned(const char* op, const char* schedule) {
  TunedOperator one;
  one.op = parse_segment(op);
  one.machine = "h200x8";
  one.measured = {{schedule, 100, 100, 100, {}, {}}};
  Tuning tuning;
  tuning.add(one);
  return tuning;
}

// 128 SMs multiply 4 rows of 32 tiles: of 224 columns for one, of 192 for the other.
TEST_F(Refitted, TilesFillAWave) {
  const char* of_wide = "tiles,tile=128x224,comm-sms=4,k-phases=4";
  const char* of_narrow = "tiles,tile=128x192,comm-sms=4,k-phases=4";
  EXPECT_EQ(refit(of_narrow, kWide), parsed(of_wide, kWide));
  EXPECT_EQ(refit(of_wide, kNarrow), parsed(of_narrow, kNarrow));
  EXPECT_EQ(refit(of_wide, kWide), std::nullopt) << "it is what it should be";
}

TEST_F(Refitted, AreGathersByTilesAndCommunicationBlocksOnly) {
  for (const char* other : {"slices", "decomposed", "low-latency", "tiles,mover=copy-engine"}) {
    EXPECT_EQ(refit(other, kNarrow), std::nullopt) << other;
  }
  EXPECT_EQ(refit("tiles", "gemm-rs m=512 n=8192 k=8192 ranks=2 dtype=bf16"), std::nullopt);
}

TEST_F(Refitted, AreCandidatesBesideWhatANeighbourProposes) {
  const Tuning tuning = tuned(kWide, "tiles,order=arrival,tile=128x224,comm-sms=4,swizzle=4");
  for (const char* width : {"224", "192"}) {
    const std::string text =
        std::string("tiles,order=arrival,comm-sms=4,swizzle=4,tile=128x") + width;
    EXPECT_TRUE(is_candidate(text.c_str(), kNarrow, tuning)) << text;
  }
}

TEST_F(Refitted, PhasesOfKAreCandidatesThoughNoNeighbourHadThem) {
  const Segment op = parse_segment(kNarrow);
  const auto all = weighed_schedules(op, machine_, tuned(kWide, "slices"));
  EXPECT_EQ(std::count_if(all.begin(), all.end(),
                          [](const WeighedSchedule& one) { return one.schedule.k_phases > 1; }),
            3);
}

}  // namespace
}  // namespace stretto

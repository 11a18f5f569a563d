// Plans on GPUs of few SMs, whose blocks take them in every order: none that the checker finds
// resident gets stuck, and of those that it does not many do.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/sampling.h"
#include "mutants/admission.h"
#include "mutants/edits.h"
#include "mutants/judge.h"
#include "stretto/check.h"
#include "stretto/error.h"

namespace stretto::mutants {
namespace {

struct Counts {
  int resident = 0, crowded = 0, reported = 0, stuck = 0;
};

int blocks_of(const Plan& plan, int rank) {
  int blocks = 0;
  for (const Lane& lane : plan.lanes) {
    blocks += lane.rank == rank && (lane.kind == LaneKind::compute || lane.kind == LaneKind::comm);
  }
  return blocks;
}

void expect_agreement(const Plan& plan, int sms, int orders, uint64_t seed, Counts& counts) {
  const bool is_resident = why_not_resident(plan, sms).empty();
  (is_resident ? counts.resident : counts.reported) += 1;
  counts.crowded += is_resident && sms < blocks_of(plan, 0);
  bool is_stuck = false;
  for (int order = 0; order < orders && !is_stuck; ++order) {
    is_stuck = !Admission(plan, sms, seed + static_cast<uint64_t>(order)).all_end();
  }
  counts.stuck += is_stuck && !is_resident;
  ASSERT_FALSE(is_stuck && is_resident) << sms << " SMs\n" << print(plan);
}

TEST(Residency, OfPlansOnFewSmsHoldsInEveryOrderOfAdmission) {
  const int orders = wants_all() ? 100 : all_or_sample(12, 3);
  const auto seed = static_cast<uint64_t>(testing::UnitTest::GetInstance()->random_seed());
  Counts counts;
  for (const Subject& subject : subjects()) {
    SCOPED_TRACE(subject.name);
    for (int sms = 1; sms <= blocks_of(subject.plan, 0) + 1; ++sms) {
      expect_agreement(subject.plan, sms, orders, seed, counts);
      if (HasFatalFailure()) return;
    }
  }
  fmt::print(
      "resident {}, {} of them with no more SMs than blocks; reported {}, {} of them stuck\n",
      counts.resident, counts.crowded, counts.reported, counts.stuck);
  EXPECT_GT(counts.crowded, 20);
  EXPECT_GT(counts.stuck, counts.reported / 5);
}

// The same of plans that lanes were put behind each other in, and instructions exchanged.
TEST(Residency, OfEditedPlansHoldsInEveryOrderOfAdmission) {
  const int each = wants_all() ? 100 : all_or_sample(4, 1);
  const int orders = wants_all() ? 60 : all_or_sample(8, 3);
  const auto seed = static_cast<uint64_t>(testing::UnitTest::GetInstance()->random_seed());
  std::mt19937_64 random(seed + 3);
  Counts counts;
  for (const Subject& subject : subjects()) {
    for (int i = 0; i < each; ++i) {
      Plan plan = subject.plan;
      for (const EditKind kind : {EditKind::join_lanes, EditKind::swap, EditKind::merge_sums}) {
        const std::vector<Edit> edits = edits_of(plan, kind);
        if (!edits.empty() && random() % 2 == 0) apply(plan, edits[random() % edits.size()]);
      }
      plan.sms = 1 + static_cast<int>(random() % 8);
      // Of those that are clean but for that: others are stuck by themselves.
      Plan with_room = plan;
      with_room.sms = 1000;
      try {
        if (!check(with_room).clean()) continue;
      } catch (const UsageError&) {
        continue;
      }
      SCOPED_TRACE(subject.name);
      expect_agreement(plan, plan.sms, orders, random(), counts);
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GT(counts.resident, 10);
  EXPECT_GT(counts.stuck, 5);
}

}  // namespace
}  // namespace stretto::mutants

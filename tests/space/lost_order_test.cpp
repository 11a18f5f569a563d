// Plans of random points with one wait, notify or threshold less, or two dependent neighbours
// exchanged: the checker must report each. With start=wave, and in a cluster, tiles wait for more
// than they read and acknowledge what they waited for; where the checker takes such a wait, or that
// an acknowledgement stands behind the tile, for needless, the emulator must find nothing either.
//
// For a long walk over other points: test_space --gtest_shuffle --gtest_repeat=1000
#include <gtest/gtest.h>

#include <algorithm>

#include "check/mutations.h"
#include "space/random_point.h"
#include "stretto/check.h"
#include "stretto/emulate.h"
#include "stretto/error.h"
#include "stretto/lower.h"

namespace stretto {
namespace {

constexpr int kPlans = 60;
constexpr size_t kMostInstrs = 1500, kMutations = 40;

bool reported(const Plan& plan) {
  CheckOptions first_one;
  first_one.max_diagnostics = 1;
  try {
    return !check(plan, first_one).clean();
  } catch (const UsageError&) {
    return true;  // refused before it is checked: a threshold of 0
  }
}

// Tiles wait for what the others of a wave, or of their cluster, read.
bool waits_with_others(const Schedule& schedule) {
  return schedule.start == Start::wave || schedule.cluster > 1;
}

// Of a tile, for those others: its wait, or the acknowledgement of it that the tile changed places
// with.
bool is_for_others(const Plan& plan, const Mutation& mutation) {
  const Lane& lane = plan.lanes[mutation.at.lane];
  if (lane.kind != LaneKind::compute) return false;
  return lane.instrs[mutation.at.pos].op == Opcode::wait ||
         (mutation.kind == MutationKind::swap_with_next &&
          lane.instrs[mutation.at.pos + 1].op == Opcode::notify);
}

void expect_right(const Plan& plan) {
  for (uint64_t seed = 0; seed < 16; ++seed) {
    const EmulateResult result = emulate(plan, {.seed = seed, .fill = Fill::integers, .runs = 3});
    EXPECT_TRUE(result.finished && result.verified && result.faults.empty()) << "seed " << seed;
  }
}

TEST(LostOrder, IsReportedAtRandomPoints) {
  const auto shuffle_seed = static_cast<uint64_t>(testing::UnitTest::GetInstance()->random_seed());
  std::mt19937_64 random(shuffle_seed + 1'000'000);
  size_t tried = 0, needless = 0;
  for (int plans = 0; plans < kPlans;) {
    Point point = random_point(random);
    if (random() % 4 == 0) point.schedule.start = Start::wave;
    if (!legal(point.op, point.schedule, point.machine).empty()) continue;
    const Plan plan = lower(point.op, point.schedule, point.machine);
    if (plan.num_instrs() > kMostInstrs) continue;
    ++plans;
    SCOPED_TRACE(to_string(point));
    std::vector<Mutation> mutations = mutations_of(plan, plan.num_instrs() < 300);
    std::shuffle(mutations.begin(), mutations.end(), random);
    mutations.resize(std::min(mutations.size(), kMutations));
    for (const Mutation& mutation : mutations) {
      Plan mutant = plan;
      apply(mutant, mutation);
      SCOPED_TRACE(describe(plan, mutation));
      if (!reported(mutant)) {
        ++needless;
        EXPECT_TRUE(waits_with_others(point.schedule) && is_for_others(plan, mutation));
        expect_right(mutant);
      }
      if (HasFailure()) return;
    }
    tried += mutations.size();
  }
  EXPECT_GT(tried, size_t{kPlans});
  RecordProperty("needless", static_cast<int>(needless));
  EXPECT_LT(needless, tried / 20);
}

}  // namespace
}  // namespace stretto

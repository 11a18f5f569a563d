// Plans of random points with one wait, notify or threshold less, or two dependent neighbours
// exchanged: the checker must report each.
//
// For a long walk over other points: test_space --gtest_shuffle --gtest_repeat=1000
#include <gtest/gtest.h>

#include <algorithm>

#include "check/mutations.h"
#include "space/random_point.h"
#include "stretto/check.h"
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

TEST(LostOrder, IsReportedAtRandomPoints) {
  const auto shuffle_seed = static_cast<uint64_t>(testing::UnitTest::GetInstance()->random_seed());
  std::mt19937_64 random(shuffle_seed + 1'000'000);
  size_t tried = 0;
  for (int plans = 0; plans < kPlans;) {
    const Point point = random_point(random);
    if (!legal(point.op, point.schedule, point.machine).empty()) continue;
    // Lanes that begin together wait for more than they need.
    if (point.schedule.start == Start::wave) continue;
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
      EXPECT_TRUE(reported(mutant)) << describe(plan, mutation);
      if (HasFailure()) return;
    }
    tried += mutations.size();
  }
  EXPECT_GT(tried, size_t{kPlans});
}

}  // namespace
}  // namespace stretto

// The checker against an exhaustive walk through all states of small random plans.
#include <fmt/format.h>

#include "check/random_plans.h"
#include "check/state_oracle.h"
#include "check/text_plan.h"
#include "core/sampling.h"

namespace stretto {
namespace {

// What the oracle can judge: not coverage of outputs, which random plans neglect.
std::optional<Diagnostic> complaint(const CheckReport& report) {
  for (const Diagnostic& d : report.diagnostics) {
    if (d.kind != DiagnosticKind::unwritten_output) return d;
  }
  return std::nullopt;
}

TEST(Oracle, RacyRandomPlansAreReportedAndOthersAreNot) {
  Random random(20260101);
  int clean = 0, racy = 0, cautious = 0, skipped = 0;
  constexpr int kPlans = all_or_sample(500, 100);
  for (int i = 0; i < kPlans; ++i) {
    Plan plan = random_plan(random);
    std::string changes;
    for (int n = pick(random, 4); n > 0; --n) changes += change(plan, random) + "; ";
    const CheckReport report = check(plan, {.fragment = true});
    const OracleVerdict truth = explore(plan, report.epochs + 1, 10000);
    if (!truth.complete) {
      ++skipped;
      continue;
    }
    const std::optional<Diagnostic> found = complaint(report);
    const std::string plan_text = changes + "\n" + print(plan);
    if (!truth.fault.empty()) {
      ++racy;
      ASSERT_TRUE(found) << truth.fault << "\nafter: " << plan_text;
    } else if (!found) {
      ++clean;
    } else {
      ++cautious;
      // Only a rank that happens to run ahead can pass such a wait.
      ASSERT_EQ(to_string(found->kind), to_string(DiagnosticKind::unreachable_threshold))
          << found->message << "\nafter: " << plan_text;
    }
  }
  fmt::print(
      "oracle: {} racy plans, all reported; {} clean ones; {} reported out of caution; "
      "{} too large\n",
      racy, clean, cautious, skipped);
  EXPECT_GT(racy, kPlans * 3 / 10);
  EXPECT_GT(clean, kPlans * 3 / 10);
  EXPECT_LT(skipped, kPlans / 10);
}

}  // namespace
}  // namespace stretto

// Plans keep the runs that were asked for last, and not all that ever were.
#include "c/kept_runs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "lower/plan_of.h"

namespace stretto {
namespace {

constexpr int64_t kRows = 4 * c::KeptRuns::kMost;

Plan served() {
  return plan_of("gemm-ar m=" + std::to_string(kRows) + " n=32 k=32 ranks=2 dtype=bf16",
                 "tiles,rows=bucket,tile=32x32");
}

TEST(KeptRuns, AreWrittenOutOnceWhileTheyAreAskedFor) {
  const Plan plan = served();
  c::KeptRuns runs;
  const auto first = runs.at(plan, 5);
  EXPECT_EQ(print(*first), print(at_rows(plan, 5)));
  for (int64_t rows = 6; rows < 200; ++rows) {
    EXPECT_EQ(runs.at(plan, 1 + rows % (kRows - 1))->op.rows(), 1 + rows % (kRows - 1));
    EXPECT_EQ(runs.at(plan, 5), first);
  }
}

TEST(KeptRuns, OfLongAgoGoUnlessSomebodyHasThem) {
  const Plan plan = served();
  c::KeptRuns runs;
  const std::shared_ptr<const Plan> held = runs.at(plan, 1);
  std::vector<std::weak_ptr<const Plan>> all;
  for (int64_t rows = 2; rows < kRows; ++rows) all.push_back(runs.at(plan, rows));
  const auto kept =
      std::count_if(all.begin(), all.end(), [](const auto& run) { return !run.expired(); });
  EXPECT_EQ(kept, static_cast<int64_t>(c::KeptRuns::kMost));
  EXPECT_FALSE(all.back().expired());
  EXPECT_EQ(held->op.rows(), 1);
  EXPECT_NE(runs.at(plan, 1), held);
}

}  // namespace
}  // namespace stretto

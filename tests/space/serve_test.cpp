// Runs of fewer rows than their plan's, at random points of the space: each is proved, and computes
// exactly what the operator with so many rows does.
#include "stretto/serve.h"

#include <gtest/gtest.h>

#include <set>

#include "space/random_point.h"
#include "stretto/check.h"
#include "stretto/emulate.h"
#include "stretto/lower.h"

namespace stretto {
namespace {

constexpr int kPoints = 400;

// One row, all rows, fewer than ranks, a row more than whole shards, and anything.
std::set<int64_t> row_counts(const Segment& op, std::mt19937_64& random) {
  const int64_t all[] = {1, op.m, op.ranks - 1, op.m - op.m % op.ranks + 1,
                         1 + static_cast<int64_t>(random() % static_cast<uint64_t>(op.m))};
  std::set<int64_t> counts;
  for (const int64_t rows : all) {
    if (rows >= 1 && rows <= op.m) counts.insert(rows);
  }
  return counts;
}

TEST(Serve, ComputesFewerRowsAtRandomPoints) {
  const auto shuffle_seed = static_cast<uint64_t>(testing::UnitTest::GetInstance()->random_seed());
  std::mt19937_64 random(shuffle_seed + 1);
  int served = 0;
  for (int i = 0; i < kPoints; ++i) {
    Point point = random_point(random);
    point.schedule.rows = RowCount::bucket;
    if (point.op.kind != kGemmAr) point.op.m = point.op.row_shards().block() * point.op.ranks;
    if (!legal(point.op, point.schedule, point.machine).empty()) continue;
    const Plan plan = lower(point.op, point.schedule, point.machine);
    ASSERT_TRUE(why_not_served(plan).empty()) << why_not_served(plan).front();
    for (const int64_t rows : row_counts(point.op, random)) {
      SCOPED_TRACE(to_string(point) + "\nrows " + std::to_string(rows));
      const Plan run = at_rows(plan, rows);
      const std::string text = print(run);
      EXPECT_EQ(print(parse_plan(text)), text);
      const CheckReport report = check(run, {.has_whole_plan = true});
      EXPECT_TRUE(report.clean()) << report.diagnostics.front().message;
      const EmulateResult result =
          emulate(run, {.seed = random(), .fill = Fill::integers, .runs = 3});
      EXPECT_TRUE(result.finished && result.verified && result.faults.empty())
          << (result.faults.empty() ? result.first_wrong : result.faults.front().text);
      ++served;
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(served, 60);
}

}  // namespace
}  // namespace stretto

#include "stretto/plan.h"

#include <gtest/gtest.h>

#include "plan/sample.h"

namespace stretto {
namespace {

TEST(Buffer, ShardedRowsEndWhereTheMatrixEnds) {
  Buffer buffer{"out", DType::bf16, BufferRole::output, 3, 4, 7, 1};
  EXPECT_EQ(buffer.rows_on(0), 3);
  EXPECT_EQ(buffer.rows_on(1), 3);
  EXPECT_EQ(buffer.rows_on(2), 1);
  EXPECT_EQ(buffer.rows_on(3), 0);
  EXPECT_EQ(buffer.rows_on(1000), 0);
  buffer.sharded_rows = 0;
  EXPECT_EQ(buffer.rows_on(1000), 3);
  buffer = {"out", DType::bf16, BufferRole::output, INT32_MAX, 4, INT32_MAX, 1};
  EXPECT_EQ(buffer.rows_on(1023), 0);
}

TEST(PlacedWrites, StackUntilTheTaskIsCoveredThenStartAgain) {
  const Plan plan = parse_plan(kSampleText);
  const auto rows = [&](const Instr& instr) {
    std::vector<int32_t> starts;
    for (const Placed& placed : placed_writes(plan, instr)) starts.push_back(placed.row);
    return starts;
  };
  EXPECT_EQ(rows(plan.lanes[0].instrs[1]), (std::vector<int32_t>{0, 3}));  // two owners
  EXPECT_EQ(rows(plan.lanes[1].instrs[2]), (std::vector<int32_t>{0}));
  EXPECT_EQ(rows(plan.lanes[2].instrs[0]), (std::vector<int32_t>{0, 0}));  // replicas
  EXPECT_EQ(rows(plan.lanes[2].instrs[1]), (std::vector<int32_t>{0, 1}));  // stacked
  EXPECT_EQ(rows(plan.lanes[3].instrs[1]), (std::vector<int32_t>{0, 0}));  // a collective's parts
  EXPECT_EQ(rows(plan.lanes[3].instrs[3]), (std::vector<int32_t>{}));
  EXPECT_EQ(placed_writes(plan, plan.lanes[0].instrs[1])[1].region, (Region{0, 2, 0, 4, 2, 1}));
}

TEST(Describe, NamesLanesSignalsAndRegions) {
  const Plan plan = parse_plan(kSampleText);
  EXPECT_EQ(describe(plan.lanes[1]), "rank 0 comm 3");
  EXPECT_EQ(describe(plan, SignalRef{0, 3}), "slots.3");
  EXPECT_EQ(describe(plan, Region{0, 2, 1, 4, 2, 1}), "slots@1[0:2,1:4]");
}

TEST(Plan, FindsBuffersByName) {
  const Plan plan = parse_plan(kSampleText);
  EXPECT_EQ(plan.find_buffer("slots"), 2);
  EXPECT_EQ(plan.find_buffer("slot"), std::nullopt);
}

}  // namespace
}  // namespace stretto

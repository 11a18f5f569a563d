// Plans of gemm=few-rows: every rank's terms are sent, of ragged rows and columns and of K that
// ranks share unevenly.
#include <gmock/gmock.h>

#include "plan/tile_task.h"
#include "small_plans.h"

namespace stretto {
namespace {

using testing::IsEmpty;

class FewRows : public testing::TestWithParam<int> {};

TEST_P(FewRows, SumsAreRight) {
  const int ranks = GetParam();
  const Machine machine = small_machine(ranks);
  for (const char* name : {"gemm-rs", "gemm-ar", "gemm-ar-norm"}) {
    for (const auto& [m, n] : {std::pair<int64_t, int64_t>{1, 8}, {19, 40}}) {
      const Operator op =
          make_operator(name, {{"m", m}, {"n", n}, {"k", int64_t{24} * ranks - 8}}, ranks);
      const OperatorSchedule schedule = schedule_of(find_preset("few-rows"), op, machine);
      SCOPED_TRACE(to_string(op));
      ASSERT_EQ(schedule.first().gemm, GemmBy::few_rows);
      ASSERT_THAT(legal(op, schedule, machine), IsEmpty());
      const Plan plan = lower(op, schedule, machine);
      EXPECT_TRUE(plan.few_rows_gemms);
      expect_proved(plan);
      expect_right(plan, {.seed = 3});
    }
  }
}

// Rows that ranks gather, or have, go through a gate, an activation or a row of bias where they are
// multiplied, in what a rank has of ragged rows and columns.
TEST_P(FewRows, AreFollowedInTheirKernel) {
  const int ranks = GetParam();
  const Machine machine = small_machine(ranks);
  for (const char* name : {"mlp", "mlp-ar", "mlp-gelu"}) {
    const Operator op = make_operator(name, {{"m", 19}, {"h", 40}, {"f", 40 * ranks - 8}}, ranks);
    const OperatorSchedule schedule = schedule_of(find_preset("few-rows"), op, machine);
    SCOPED_TRACE(to_string(op));
    ASSERT_THAT(legal(op, schedule, machine), IsEmpty());
    const Plan plan = lower(op, schedule, machine);
    EXPECT_TRUE(plan.few_rows_gemms);
    size_t behind = 0;
    for (const Lane& lane : plan.lanes) {
      for (const Instr& instr : lane.instrs) behind += follows_product(instr.op) && !instr.fused;
    }
    EXPECT_EQ(behind, 0u);
    expect_proved(plan);
    expect_right(plan, {.seed = 3});
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, FewRows, testing::Values(2, 3, 8),
                         [](const auto& test) { return std::to_string(test.param); });

}  // namespace
}  // namespace stretto

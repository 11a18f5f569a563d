// Which waits a lost notify holds up: the table of tests on GPUs holds what it says, and the
// emulator agrees.
#include "held_up.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "lost_notifies.h"
#include "stretto/emulate.h"
#include "tables/plan_limits.h"

namespace stretto::runtime {
namespace {

using testing::IsEmpty;
using testing::IsSubsetOf;
using testing::Not;

class HeldUp : public testing::TestWithParam<LostNotify> {};

TEST_P(HeldUp, IsWhatTheTableSays) {
  const LostNotify& lost = GetParam();
  Plan plan = plan_of(lost);
  EXPECT_THAT(cuda::why_not_on_cuda(plan), IsEmpty());
  for (const cuda::RankProgram& program : cuda::programs_of(plan)) {
    EXPECT_EQ(program.joins(), lost.joined);
  }
  EXPECT_THAT(HeldUpRuns(plan, lost.runs).waits(), IsEmpty());
  drop_notify(plan, lost.signal, lost.to, lost.from);
  EXPECT_THAT(HeldUpRuns(plan, lost.runs - 1).waits(), IsEmpty()) << "held up too early";
  int direct = 0;
  for (const StuckWait& wait : HeldUpRuns(plan, lost.runs).waits()) {
    if (wait.rank != lost.to) continue;
    // Else another wait of that rank might expire first.
    EXPECT_TRUE(is_direct(plan, lost, wait)) << describe(plan, wait, 0);
    EXPECT_EQ(plan.lanes[wait.lane].kind, lost.waiter);
    EXPECT_EQ(wait.seen, wait.expected - 1);
    ++direct;
  }
  EXPECT_GT(direct, 0);
}

// Its lanes stand still at the same waits, though it knows more than waits and notifies.
TEST_P(HeldUp, IsWhereTheEmulatorStandsStill) {
  const LostNotify& lost = GetParam();
  Plan plan = plan_of(lost);
  drop_notify(plan, lost.signal, lost.to, lost.from);
  std::set<std::string> held_up;
  for (const StuckWait& wait : HeldUpRuns(plan, lost.runs).waits()) {
    held_up.insert(fmt::format("{} at {}: {} of {}", describe(plan.lanes[wait.lane]), wait.position,
                               wait.seen, wait.expected));
  }
  EmulateOptions options;
  options.fill = Fill::integers;
  options.runs = lost.runs;
  const EmulateResult result = emulate(plan, options);
  EXPECT_FALSE(result.finished);
  std::set<std::string> stuck;
  for (const StuckLane& lane : result.stuck) {
    if (lane.signal.starts_with("boundary")) continue;
    stuck.insert(
        fmt::format("{} at {}: {} of {}", lane.lane, lane.where.pos, lane.seen, lane.expected));
  }
  EXPECT_THAT(stuck, Not(IsEmpty()));
  EXPECT_THAT(stuck, IsSubsetOf(held_up));
}

INSTANTIATE_TEST_SUITE_P(LostNotifies, HeldUp, testing::ValuesIn(kLostNotifies),
                         [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace stretto::runtime

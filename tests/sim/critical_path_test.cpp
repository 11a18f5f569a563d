// The critical path leads without gaps from the start of the run to its end, and says why.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hand_plan.h"
#include "stretto/simulate.h"

namespace stretto {
namespace {

using ::testing::ElementsAre;
using testing_sim::HandPlan;
using testing_sim::round_machine;

std::vector<std::string> reasons(const Simulation& result) {
  std::vector<std::string> why;
  for (const CriticalStep& step : result.critical_path) why.push_back(step.why);
  return why;
}

void expect_contiguous(const Simulation& result) {
  ASSERT_FALSE(result.critical_path.empty());
  EXPECT_EQ(result.critical_path.front().end_us, result.total_us);
  for (size_t i = 0; i + 1 < result.critical_path.size(); ++i) {
    EXPECT_EQ(result.critical_path[i].start_us, result.critical_path[i + 1].end_us);
    EXPECT_LE(result.critical_path[i].start_us, result.critical_path[i].end_us);
  }
  EXPECT_EQ(result.critical_path.back().start_us, 0);
}

TEST(CriticalPath, FollowsLaneSignalAndLink) {
  HandPlan hand(3);
  hand.signals("s", 1);
  const int lane = hand.lane(0, LaneKind::compute);
  hand.gemm(lane, 0);
  hand.gemm(lane, 1, {hand.slots(1, 0)});
  hand.notify(lane, 0, 1);
  const int waiter = hand.lane(1, LaneKind::comm);
  hand.wait(waiter, 0, 1);
  hand.copy(waiter, hand.slots(1, 0), {hand.part(1, 0)});
  Machine machine = round_machine();
  machine.launch_us = 2;
  machine.signal_us = 1;
  machine.link_gb_per_s = 5;  // less than the epilogue's
  const Simulation result = simulate(hand.plan(), machine);
  expect_contiguous(result);
  EXPECT_THAT(reasons(result), ElementsAre("signal s.0", "its data are there", "link of rank 0",
                                           "lane order", "launch", "launch"));
}

TEST(CriticalPath, GoesThroughTheLastLaneToJoin) {
  HandPlan hand(1);
  for (int i = 0; i < 3; ++i) {
    const int lane = hand.lane(0, LaneKind::compute);
    hand.gemm(lane, 3 * i);
    if (i == 1) hand.gemm(lane, 3 * i + 1);
    hand.boundary(lane, 7);
    hand.gemm(lane, 3 * i + 2);
  }
  const Simulation result = simulate(hand.plan(), round_machine());
  expect_contiguous(result);
  EXPECT_THAT(reasons(result),
              ElementsAre("boundary 7", "lane order", "lane order", "start of the run"));
  EXPECT_EQ(result.critical_path[1].where.lane, 1u);
}

TEST(CriticalPath, OfAnEmptyPlanIsEmpty) {
  HandPlan hand(2);
  const Simulation result = simulate(hand.plan(), round_machine());
  EXPECT_EQ(result.total_us, 0);
  EXPECT_TRUE(result.critical_path.empty());
  EXPECT_EQ(result.efficiency, 1);
}

}  // namespace
}  // namespace stretto

// Plans that cannot be simulated are answered in the user's terms.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hand_plan.h"
#include "stretto/error.h"
#include "stretto/simulate.h"

namespace stretto {
namespace {

using ::testing::HasSubstr;
using testing_sim::HandPlan;
using testing_sim::round_machine;

std::string error_of(const Plan& plan, const Machine& machine) {
  try {
    simulate(plan, machine);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no error";
}

TEST(SimulateRefuses, AWaitThatNothingEnds) {
  HandPlan hand(1);
  hand.signals("s", 2);
  const int lane = hand.lane(0, LaneKind::compute);
  hand.wait(lane, 1, 2);
  hand.gemm(lane, 0);
  const int other = hand.lane(0, LaneKind::comm);
  hand.notify(other, 1, 0);
  const std::string error = error_of(hand.plan(), round_machine());
  EXPECT_THAT(error, HasSubstr("1 of 2 lanes"));
  EXPECT_THAT(error, HasSubstr("rank 0 compute 0 waits for s.1 >= 2, which stays at 1"));
  EXPECT_THAT(error, HasSubstr("stretto check"));
}

TEST(SimulateRefuses, LanesThatWaitForEachOther) {
  HandPlan hand(2);
  hand.signals("s", 1);
  for (int rank = 0; rank < 2; ++rank) {
    const int lane = hand.lane(rank, LaneKind::comm);
    hand.wait(lane, 0, 1);
    hand.notify(lane, 0, 1 - rank);
  }
  EXPECT_THAT(error_of(hand.plan(), round_machine()), HasSubstr("2 of 2 lanes"));
}

TEST(SimulateRefuses, ACollectiveThatSomeRankLeavesOut) {
  HandPlan hand(2);
  hand.all_reduce(hand.lane(0, LaneKind::nccl), 4, 1);
  EXPECT_THAT(error_of(hand.plan(), round_machine()), HasSubstr("collective 4"));
}

TEST(SimulateRefuses, ABoundaryThatSomeLaneLeavesOut) {
  HandPlan hand(1);
  hand.boundary(hand.lane(0, LaneKind::compute), 3);
  hand.gemm(hand.lane(0, LaneKind::compute), 0);
  EXPECT_THAT(error_of(hand.plan(), round_machine()), HasSubstr("boundary 3"));
}

TEST(SimulateRefuses, AMachineOfTooFewRanks) {
  HandPlan hand(9);
  hand.gemm(hand.lane(0, LaneKind::compute), 0);
  EXPECT_THAT(error_of(hand.plan(), round_machine()), HasSubstr("9 ranks but machine round has 8"));
}

TEST(SimulateRefuses, AMachineOfTooFewSms) {
  HandPlan hand(1);
  for (int i = 0; i < 9; ++i) hand.gemm(hand.lane(0, LaneKind::compute), i);
  EXPECT_THAT(error_of(hand.plan(), round_machine()), HasSubstr("8 SMs"));
}

}  // namespace
}  // namespace stretto

// The time that a simulation takes is in proportion to the plan's lines, whatever a lane does again
// and again.
#include <gtest/gtest.h>

#include <ctime>

#include "hand_plan.h"
#include "stretto/simulate.h"

namespace stretto {
namespace {

using testing_sim::HandPlan;
using testing_sim::round_machine;

constexpr int kLines = 400'000;
constexpr double kMostSeconds =
    20;  // a fraction of one is enough; the square of lines takes minutes

double seconds_to_simulate(const Plan& plan) {
  const std::clock_t begin = std::clock();
  simulate(plan, round_machine());
  return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

class ManyNotifies : public testing::TestWithParam<LaneKind> {};
INSTANTIATE_TEST_SUITE_P(, ManyNotifies,
                         testing::Values(LaneKind::compute, LaneKind::comm, LaneKind::copy),
                         [](const auto& tested) { return std::string(to_string(tested.param)); });

TEST_P(ManyNotifies, OfOneLaneTakeTimeInProportion) {
  HandPlan hand(2);
  hand.signals("s", 1);
  const int lane = hand.lane(0, GetParam());
  hand.copy(lane, hand.part(0, 0), {hand.slots(1, 0)});
  for (int i = 0; i < kLines; ++i) hand.notify(lane, 0, 1);
  EXPECT_LT(seconds_to_simulate(hand.plan()), kMostSeconds);
}

TEST_P(ManyNotifies, BehindCopiesOfAnElementTakeTimeInProportion) {
  HandPlan hand(2);
  hand.signals("s", 1);
  const int lane = hand.lane(0, GetParam());
  Region from = hand.part(0, 0), to = hand.slots(1, 0);
  from.row1 = from.row0 + 1, from.col1 = from.col0 + 1;
  to.row1 = to.row0 + 1, to.col1 = to.col0 + 1;
  for (int i = 0; i < kLines; ++i) {
    hand.copy(lane, from, {to});
    hand.notify(lane, 0, 1);
  }
  EXPECT_LT(seconds_to_simulate(hand.plan()), kMostSeconds);
}

}  // namespace
}  // namespace stretto

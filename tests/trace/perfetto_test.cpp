// Trace events are valid JSON that viewers can draw.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "sim/hand_plan.h"
#include "stretto/simulate.h"

namespace stretto {
namespace {

using nlohmann::json;
using testing_sim::HandPlan;
using testing_sim::round_machine;

HandPlan signalled() {
  HandPlan hand(2);
  hand.signals("s", 1);
  const int lane = hand.lane(0, LaneKind::compute);
  hand.gemm(lane, 7, {hand.slots(1, 0)});
  hand.notify(lane, 0, 1);
  const int waiter = hand.lane(1, LaneKind::comm);
  hand.wait(waiter, 0, 1);
  hand.copy(waiter, hand.slots(1, 0), {hand.part(1, 0)});
  return hand;
}

json trace_of(const HandPlan& hand, size_t max_slices = 1000) {
  const Simulation result = simulate(hand.plan(), round_machine());
  return json::parse(to_perfetto(hand.plan(), result, nullptr, max_slices));
}

TEST(Perfetto, NamesRanksAndLanes) {
  std::set<std::string> names;
  const json trace = trace_of(signalled());
  for (const json& event : trace["traceEvents"]) {
    if (event["name"] == "process_name" || event["name"] == "thread_name") {
      names.insert(event["args"]["name"]);
    }
  }
  EXPECT_THAT(names, ::testing::UnorderedElementsAre("rank 0", "rank 1", "compute 0", "comm 0",
                                                     "link out"));
}

TEST(Perfetto, HasASliceForEveryTaskWaitAndBusyPort) {
  std::map<std::string, json> slices;
  const json trace = trace_of(signalled());
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] == "X") slices[event["name"]] = event;
  }
  ASSERT_EQ(slices.size(), 4u);
  EXPECT_EQ(slices["gemm 7"]["pid"], 0);
  EXPECT_NEAR(slices["gemm 7"]["dur"], 10, 1e-3);
  EXPECT_EQ(slices["wait s.0 >= 1"]["pid"], 1);
  EXPECT_NEAR(slices["wait s.0 >= 1"]["dur"], 10 + testing_sim::kTileBytes / 10e3, 1e-3);
  EXPECT_EQ(slices["copy 0"]["ts"], slices["wait s.0 >= 1"]["dur"]);
  EXPECT_EQ(slices["send"]["cat"], "link");
}

TEST(Perfetto, DrawsArrowsBetweenSlices) {
  const json trace = trace_of(signalled());
  std::map<std::string, json> ends;
  for (const json& event : trace["traceEvents"]) {
    if (event["name"] == "signal") ends[event["ph"]] = event;
  }
  ASSERT_EQ(ends.size(), 2u);
  EXPECT_EQ(ends["s"]["id"], ends["f"]["id"]);
  EXPECT_EQ(ends["s"]["pid"], 0);
  EXPECT_EQ(ends["f"]["pid"], 1);
  EXPECT_LT(ends["s"]["ts"], 10);
  EXPECT_GT(ends["f"]["ts"], 10);
}

// Viewers leave out slices of a lane that overlap, be it by a nanosecond.
TEST(Perfetto, OfSlicesThatMeetRoundsNoneIntoTheNext) {
  HandPlan hand(1);
  const int lane = hand.lane(0, LaneKind::compute);
  constexpr uint32_t kTasks = 100;
  Timeline timeline;
  for (uint32_t i = 0; i < kTasks; ++i) {
    hand.gemm(lane, 0, {hand.part(0, 0)});
    const double start = 0.0006 + i * 0.9998;
    timeline.spans.push_back({{0, i}, start, start + 0.9998});
    timeline.links.push_back({0, false, start, start + 0.9998});
  }
  std::map<int, double> ends;
  const json trace = json::parse(to_perfetto(hand.plan(), timeline));
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    double& end = ends[event["tid"]];
    EXPECT_NEAR(event["ts"].get<double>(), end, end == 0 ? 2e-3 : 1e-9);
    end = event["ts"].get<double>() + event["dur"].get<double>();
  }
  EXPECT_EQ(ends.size(), 2u);
}

TEST(Perfetto, LeavesRanksOutOfATraceThatIsTooLarge) {
  const json trace = trace_of(signalled(), 2);
  EXPECT_EQ(trace["otherData"]["left_out"], "ranks 1 to 1");
  for (const json& event : trace["traceEvents"]) EXPECT_EQ(event["pid"], 0);
  EXPECT_FALSE(trace_of(signalled())["otherData"].contains("left_out"));
}

TEST(Perfetto, OfAnEmptyPlanIsValid) {
  HandPlan hand(3);
  EXPECT_EQ(trace_of(hand)["traceEvents"].size(), 6u);  // names of three ranks
}

}  // namespace
}  // namespace stretto

// Trace events are valid JSON that viewers can draw.
#include "stretto/perfetto.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "sim/hand_plan.h"
#include "stretto/simulate.h"
#include "stretto/version.h"

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
  return json::parse(to_perfetto(hand.plan(), result, nullptr, {"round", max_slices}));
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
                                                     "link out", "all ranks", "critical path"));
}

TEST(Perfetto, HasASliceForEveryTaskWaitAndBusyPort) {
  std::map<std::string, json> slices;
  const json trace = trace_of(signalled());
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] == "X" && event["cat"] != "critical") slices[event["name"]] = event;
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
  for (const json& event : trace["traceEvents"]) EXPECT_NE(event["pid"], 1);
  EXPECT_FALSE(trace_of(signalled())["otherData"].contains("left_out"));
}

TEST(Perfetto, SaysWhatTheTraceIsOf) {
  const json other = trace_of(signalled())["otherData"];
  EXPECT_EQ(other["machine"], "round");
  EXPECT_EQ(other["stretto"], STRETTO_VERSION);
  EXPECT_EQ(other["timeline"], "predicted");
  EXPECT_NEAR(other["total_us"].get<double>(), 10, 100);
  const HandPlan hand = signalled();
  const Timeline measured = simulate(hand.plan(), round_machine());
  EXPECT_EQ(json::parse(to_perfetto(hand.plan(), measured))["otherData"]["timeline"], "measured");
}

TEST(Perfetto, SaysWhichPartATaskMakesAndWhereItGoes) {
  const json trace = trace_of(signalled());
  for (const json& event : trace["traceEvents"]) {
    if (event["name"] == "gemm 7" && event["cat"] == "gemm") {
      const json& args = event["args"];
      EXPECT_EQ(args["buffer"], "slots");
      EXPECT_EQ(args["bytes"].get<int64_t>(), testing_sim::kTileBytes);
      EXPECT_EQ(args["bytes_between_ranks"].get<int64_t>(), testing_sim::kTileBytes);
      EXPECT_EQ(args["to_rank"], "1");
      EXPECT_GT(args["k"], 0);
    }
    if (event["name"] == "wait s.0 >= 1" && event["cat"] == "wait") {
      EXPECT_EQ(event["args"]["ended_by"], "rank 0 compute 0, instruction 1");
    }
  }
}

TEST(Perfetto, LeavesOutWaitsForWhatHadCome) {
  HandPlan hand(2);
  hand.signals("s", 1);
  const int lane = hand.lane(0, LaneKind::compute);
  hand.gemm(lane, 7, {hand.slots(1, 0)});
  hand.notify(lane, 0, 1);
  const int late = hand.lane(1, LaneKind::compute);
  for (int tile = 0; tile < 20; ++tile) hand.gemm(late, tile);
  hand.wait(late, 0, 1);
  const int early = hand.lane(1, LaneKind::comm);
  hand.wait(early, 0, 1);
  const std::string trace = trace_of(hand).dump();
  size_t waits = 0;
  for (size_t at = 0; (at = trace.find("\"cat\":\"wait\"", at)) != std::string::npos; ++at) ++waits;
  EXPECT_EQ(waits, 1u);
}

TEST(Perfetto, CountsLanesInTilesAndTimeThatLinksAreBusy) {
  std::map<std::pair<std::string, int>, std::vector<std::pair<double, int>>> counters;
  const json trace = trace_of(signalled());
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] != "C") continue;
    counters[{event["name"], event["pid"]}].emplace_back(event["ts"], event["args"]["%"]);
  }
  ASSERT_EQ(counters.size(), 4u);
  // The one lane is in its tile from the first column on, and then no more.
  const auto& tiles = counters.at({"compute lanes in tiles", 0});
  EXPECT_EQ(tiles.front(), (std::pair{0.0, 100}));
  EXPECT_EQ(tiles.back().second, 0);
  EXPECT_NEAR(tiles.back().first, 10, 1);
  EXPECT_EQ(counters.at({"exposed", 2}).front().second, 0);
  EXPECT_EQ(counters.count({"link out busy", 0}), 1u);
}

TEST(Perfetto, HasTheCriticalPathOfAPrediction) {
  std::vector<std::string> steps;
  double end = 0;
  const json trace = trace_of(signalled());
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] != "X" || event["cat"] != "critical") continue;
    steps.push_back(event["name"]);
    EXPECT_GE(event["ts"].get<double>(), end - 1e-6);
    end = event["ts"].get<double>() + event["dur"].get<double>();
  }
  EXPECT_THAT(steps, ::testing::Contains("gemm 7"));
  EXPECT_THAT(steps, ::testing::Contains("copy 0"));
}

TEST(Perfetto, PutsSeveralTimelinesBesideEachOther) {
  const HandPlan hand = signalled();
  const Simulation result = simulate(hand.plan(), round_machine());
  PerfettoTrace trace;
  trace.add(hand.plan(), result, nullptr, "one");
  trace.add(hand.plan(), result, nullptr, "an \"other\"");
  const json both = json::parse(trace.finish());
  std::map<std::string, int> processes;
  std::set<int> arrows;
  for (const json& event : both["traceEvents"]) {
    if (event["name"] == "process_name") processes[event["args"]["name"]] = event["pid"];
    if (event["ph"] == "s") EXPECT_TRUE(arrows.insert(event["id"].get<int>()).second);
  }
  EXPECT_EQ(processes.size(), 6u);
  EXPECT_EQ(processes.at("an \"other\": rank 1"), processes.at("one: rank 1") + 3);
  EXPECT_EQ(arrows.size(), 2u);
  EXPECT_TRUE(both["otherData"]["one"].contains("schedule"));
}

TEST(Perfetto, OfAnEmptyPlanIsValid) {
  HandPlan hand(3);
  EXPECT_EQ(trace_of(hand)["traceEvents"].size(), 6u);  // names of three ranks
}

}  // namespace
}  // namespace stretto

// Marks of tasks as spans of a plan's instructions.
#include "measure/measured_timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "measure/rank_times.h"
#include "measure/run_parts.h"
#include "sim/hand_plan.h"
#include "stretto/device/marks.h"
#include "stretto/perfetto.h"
#include "stretto/report.h"

namespace stretto::runtime {
namespace {

using device::kMarks;
using testing::ElementsAre;
using testing_sim::HandPlan;

constexpr uint64_t kOrigin = 5'000'000'000;  // of the GPU's clock
constexpr uint64_t kNot = 0;                 // not passed

// One kernel of one block a lane: words from microseconds behind the origin.
KernelMarks marks_of(std::vector<uint32_t> lanes, std::vector<std::vector<uint32_t>> positions,
                     const std::vector<uint64_t>& begins,
                     const std::vector<std::array<uint64_t, kMarks>>& tasks) {
  KernelMarks marks{std::move(lanes), std::move(positions), {}};
  for (const uint64_t begin : begins) marks.words.push_back(kOrigin + begin * 1000);
  for (const auto& task : tasks) {
    for (const uint64_t us : task) marks.words.push_back(us == kNot ? 0 : kOrigin + us * 1000);
  }
  return marks;
}

std::vector<std::string> spans_of(const Plan& plan, const Timeline& timeline) {
  std::vector<std::string> spans;
  for (const Span& span : timeline.spans) {
    const Lane& lane = plan.lanes[span.where.lane];
    spans.push_back(std::string(to_string(lane.instrs[span.where.pos].op)) + " " +
                    std::to_string(static_cast<int>(span.start_us)) + "-" +
                    std::to_string(static_cast<int>(span.end_us)));
  }
  return spans;
}

// Rank 0 multiplies and tells; rank 1's comm lane waits and copies, and its compute lane multiplies
// an own tile and one that it awaits.
struct Hand {
  HandPlan plan{2};
  int teller, copier, multiplier;
  Hand() {
    plan.signals("s", 2);
    teller = plan.lane(0, LaneKind::compute);
    plan.gemm(teller, 7, {plan.slots(1, 0)});
    plan.notify(teller, 0, 1);
    multiplier = plan.lane(1, LaneKind::compute);
    plan.gemm(multiplier, 1, {plan.part(1, 1)});
    plan.wait(multiplier, 1, 1);
    plan.gemm(multiplier, 2, {plan.part(1, 2)});
    copier = plan.lane(1, LaneKind::comm);
    plan.wait(copier, 0, 1);
    plan.copy(copier, plan.slots(1, 0), {plan.part(1, 0)});
    plan.notify(copier, 1, 1);
  }

  // Of a run, by rank.
  std::vector<std::vector<KernelMarks>> marks() const {
    const auto lane = [](int index) { return static_cast<uint32_t>(index); };
    return {{marks_of({lane(teller)}, {{0}}, {0}, {{kNot, kNot, 2, 12, kNot, 15}})},
            {marks_of({lane(multiplier)}, {{0, 2}}, {0},
                      {{kNot, kNot, 1, 10, kNot, 11}, {20, kNot, 21, 30, kNot, 33}}),
             marks_of({lane(copier)}, {{1}}, {0}, {{14, kNot, 15, kNot, 17, 19}})}};
  }
};

TEST(MeasuredTimeline, SpansFollowTheMarks) {
  const Hand hand;
  const Plan& plan = hand.plan.plan();
  const std::vector<std::vector<KernelMarks>> by_rank = hand.marks();
  const Timeline timeline = measured_timeline(plan, by_rank);
  EXPECT_THAT(spans_of(plan, timeline),
              ElementsAre("gemm 1-10", "gemm 2-12", "wait 0-14", "notify 12-15", "copy 15-17",
                          "notify 17-19", "wait 10-20", "gemm 21-30"));
  EXPECT_DOUBLE_EQ(timeline.total_us, 33);

  const std::vector<RankTimes> times = times_by_rank(plan, by_rank);
  ASSERT_EQ(times.size(), 2u);
  EXPECT_EQ(times[1].rank, 1);
  EXPECT_DOUBLE_EQ(times[1].first_tile_us, 30);
  EXPECT_DOUBLE_EQ(times[1].multiplying_us, 18);
  EXPECT_DOUBLE_EQ(times[1].waiting_us, 10);
  EXPECT_DOUBLE_EQ(times[1].first_copied_us, 17);
  EXPECT_DOUBLE_EQ(times[1].first_told_us, 19);
  EXPECT_DOUBLE_EQ(times[1].end_us, 33);

  // Compute lanes: 10 of 15, 18 of 33.
  const RunParts parts = parts_of_run(plan, by_rank);
  EXPECT_DOUBLE_EQ(parts.multiplying_us, (10 + 18) / 2.0);
  EXPECT_DOUBLE_EQ(parts.waiting_us, (0 + 10) / 2.0);
  EXPECT_DOUBLE_EQ(parts.adding_us, 0);
  EXPECT_DOUBLE_EQ(parts.ending_us, (3 + 3) / 2.0);
  EXPECT_DOUBLE_EQ(parts.rest_us, (2 + 2) / 2.0);
  EXPECT_DOUBLE_EQ(parts.total_us(), (15 + 33) / 2.0);
}

// What `run --target cuda --perfetto` writes is what `report --measured` reads.
TEST(MeasuredTimeline, ComesBackFromItsTrace) {
  const Hand hand;
  const Plan& plan = hand.plan.plan();
  const std::vector<std::vector<KernelMarks>> by_rank = hand.marks();
  const Timeline timeline = measured_timeline(plan, by_rank);
  const TracedRun run =
      read_perfetto(to_perfetto(plan, timeline, nullptr, {.machine = "H200"}), "trace.json");
  EXPECT_TRUE(run.is_measured);
  require_same(run, plan, "trace.json");
  EXPECT_EQ(spans_of(plan, run.timeline).size(), timeline.spans.size());
  EXPECT_THAT(spans_of(plan, run.timeline),
              testing::UnorderedElementsAreArray(spans_of(plan, timeline)));
  EXPECT_DOUBLE_EQ(run.timeline.total_us, timeline.total_us);
}

// The rank's rows of a tile are added to by a task of their own, behind that of the tile.
TEST(MeasuredTimeline, SumsOfAPartOfATileAwaitWhatTheyAdd) {
  HandPlan hand(2);
  hand.signals("s", 2);
  const int lane = hand.lane(0, LaneKind::compute);
  hand.gemm(lane, 0, {hand.slots(0, 0), hand.slots(1, 0)});
  hand.notify(lane, 0, 1);
  hand.wait(lane, 1, 1);
  hand.task(lane, Opcode::reduce, {hand.slots(0, 0), hand.slots(0, 1)}, {hand.part(0, 0)});
  hand.notify(lane, 1, 1);
  const std::vector<std::vector<KernelMarks>> by_rank = {
      {marks_of({static_cast<uint32_t>(lane)}, {{0, 3}}, {0},
                {{kNot, kNot, 2, 12, kNot, 14}, {kNot, 17, kNot, kNot, 19, 20}})}};
  EXPECT_THAT(
      spans_of(hand.plan(), measured_timeline(hand.plan(), by_rank)),
      ElementsAre("gemm 2-12", "notify 12-14", "wait 14-17", "reduce 17-19", "notify 19-20"));
}

// Tasks of passes, and of rows behind tiles, mark what they await and their end; a tile without
// rows its end alone, which is no work.
TEST(MeasuredTimeline, TasksOfPassesLastUntilTheirEnd) {
  HandPlan hand(2);
  hand.signals("s", 1);
  const int adds = hand.lane(0, LaneKind::compute), empty = hand.lane(0, LaneKind::compute);
  hand.wait(adds, 0, 1);
  hand.task(adds, Opcode::reduce, {hand.slots(0, 0), hand.slots(0, 1)}, {hand.part(0, 0)});
  hand.task(adds, Opcode::reduce, {hand.slots(0, 0), hand.slots(0, 1)}, {hand.part(0, 1)});
  hand.gemm(empty, 1, {hand.part(0, 1)});
  const auto index = [](int lane) { return static_cast<uint32_t>(lane); };
  const std::vector<std::vector<KernelMarks>> by_rank = {
      {marks_of({index(adds)}, {{1, 2}}, {1},
                {{4, kNot, kNot, kNot, kNot, 6}, {kNot, kNot, kNot, kNot, kNot, 9}}),
       marks_of({index(empty)}, {{0}}, {0}, {{kNot, kNot, kNot, kNot, kNot, 5}})}};
  EXPECT_THAT(spans_of(hand.plan(), measured_timeline(hand.plan(), by_rank)),
              ElementsAre("wait 1-4", "reduce 4-6", "reduce 6-9"));
}

// A task that a run left out keeps the marks of an earlier one.
TEST(MeasuredTimeline, LeavesOutWhatEarlierRunsMarked) {
  const Hand hand;
  KernelMarks marks =
      marks_of({static_cast<uint32_t>(hand.teller)}, {{0}}, {0}, {{kNot, kNot, 2, 12, kNot, 15}});
  for (size_t i = 1; i < marks.words.size(); ++i) {
    if (marks.words[i] != 0) marks.words[i] -= 1'000'000;
  }
  const Timeline timeline = measured_timeline(hand.plan.plan(), {{marks}});
  EXPECT_TRUE(timeline.spans.empty());
  EXPECT_EQ(timeline.total_us, 0);
}

// A boundary ends a kernel; what a lane did is of all its kernels.
TEST(MeasuredTimeline, KernelsOfOneLaneAreOneLane) {
  HandPlan hand(2);
  hand.signals("s", 2);
  const int lane = hand.lane(0, LaneKind::compute);
  hand.wait(lane, 0, 1);
  hand.gemm(lane, 1, {hand.part(0, 1)});
  hand.boundary(lane, 0);
  hand.wait(lane, 1, 1);
  hand.gemm(lane, 2, {hand.part(0, 2)});
  const auto number = static_cast<uint32_t>(lane);
  const std::vector<std::vector<KernelMarks>> by_rank = {
      {marks_of({number}, {{1}}, {0}, {{3, kNot, 4, 10, kNot, 11}}),
       marks_of({number}, {{4}}, {20}, {{25, kNot, 26, 30, kNot, 31}})}};
  std::vector<uint32_t> positions;
  for (const Span& span : measured_timeline(hand.plan(), by_rank).spans) {
    positions.push_back(span.where.pos);
  }
  EXPECT_THAT(positions, ElementsAre(0, 1, 3, 4));
  const RankTimes times = times_by_rank(hand.plan(), by_rank).at(0);
  EXPECT_DOUBLE_EQ(times.first_tile_us, 10);
  EXPECT_DOUBLE_EQ(times.multiplying_us, 10);
  EXPECT_DOUBLE_EQ(times.waiting_us, 8);
  EXPECT_DOUBLE_EQ(times.most_waiting_us, 8);
  EXPECT_DOUBLE_EQ(parts_of_run(hand.plan(), by_rank).rest_us, 12);
  EXPECT_EQ(parts_of_run(hand.plan(), {}).total_us(), 0);
}

}  // namespace
}  // namespace stretto::runtime

#include "measure/rank_times.h"

#include <algorithm>
#include <map>

#include "measure/measured_timeline.h"

namespace stretto::runtime {
namespace {

using device::Mark;

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// By compute lane, of all kernels: the time in instructions of one kind.
std::vector<double> time_in(Opcode op, const Plan& plan, const Timeline& timeline,
                            const std::vector<MarkedLane>& lanes) {
  std::map<uint32_t, double> by_lane;
  for (const MarkedLane& lane : lanes) {
    if (plan.lanes[lane.lane].kind == LaneKind::compute) by_lane[lane.lane] = 0;
  }
  for (const Span& span : timeline.spans) {
    const auto found = by_lane.find(span.where.lane);
    if (found == by_lane.end()) continue;
    const bool counts = plan.lanes[span.where.lane].instrs[span.where.pos].op == op;
    if (counts) found->second += span.end_us - span.start_us;
  }
  std::vector<double> times;
  for (const auto& [lane, time] : by_lane) times.push_back(time);
  return times;
}

// By compute lane: when its first tile that awaited others was multiplied.
std::vector<double> first_tiles(const Plan& plan, const std::vector<MarkedLane>& lanes) {
  std::map<uint32_t, double> by_lane;
  for (const MarkedLane& lane : lanes) {
    if (plan.lanes[lane.lane].kind != LaneKind::compute) continue;
    for (const MarkedTask& task : lane.tasks) {
      const auto multiplied = task.passed(Mark::multiplied);
      if (task.passed(Mark::ready) && multiplied) by_lane.emplace(lane.lane, *multiplied);
    }
  }
  std::vector<double> times;
  for (const auto& [lane, time] : by_lane) times.push_back(time);
  return times;
}

// Of the tasks that a comm lane copies, the first: arrived, told; and when the last one was told.
void add_copies(const Plan& plan, const std::vector<MarkedLane>& lanes, RankTimes& row) {
  std::vector<double> arrived, told;
  for (const MarkedLane& lane : lanes) {
    if (plan.lanes[lane.lane].kind == LaneKind::compute) continue;
    bool first = true;
    for (const MarkedTask& task : lane.tasks) {
      const auto done = task.passed(Mark::done);
      if (!done || task.worked_until() == 0) continue;
      row.last_told_us = std::max(row.last_told_us, *done);
      if (first) {
        arrived.push_back(task.worked_until());
        told.push_back(*done);
      }
      first = false;
    }
  }
  row.first_copied_us = median(arrived);
  row.first_told_us = median(told);
}

double median_notify(const std::vector<MarkedLane>& lanes) {
  std::vector<double> times;
  for (const MarkedLane& lane : lanes) {
    for (const MarkedTask& task : lane.tasks) {
      const auto done = task.passed(Mark::done);
      if (done && task.worked_until() > 0) times.push_back(*done - task.worked_until());
    }
  }
  return median(times);
}

}  // namespace

std::vector<RankTimes> times_by_rank(const Plan& plan,
                                     const std::vector<std::vector<KernelMarks>>& by_rank) {
  std::vector<RankTimes> rows;
  for (const std::vector<KernelMarks>& kernels : by_rank) {
    const std::vector<MarkedLane> lanes = marked_lanes(kernels);
    const Timeline timeline = measured_timeline(plan, {kernels});
    RankTimes& row = rows.emplace_back();
    if (!lanes.empty()) row.rank = plan.lanes[lanes.front().lane].rank;
    const std::vector<double> waiting = time_in(Opcode::wait, plan, timeline, lanes);
    if (!waiting.empty()) row.most_waiting_us = *std::max_element(waiting.begin(), waiting.end());
    row.waiting_us = median(waiting);
    row.multiplying_us = median(time_in(Opcode::gemm, plan, timeline, lanes));
    row.first_tile_us = median(first_tiles(plan, lanes));
    add_copies(plan, lanes, row);
    row.notify_us = median_notify(lanes);
    row.end_us = timeline.total_us;
  }
  return rows;
}

}  // namespace stretto::runtime

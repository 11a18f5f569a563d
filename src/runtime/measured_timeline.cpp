#include "runtime/measured_timeline.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "stretto/device/marks.h"
#include "stretto/error.h"

namespace stretto::runtime {
namespace {

using device::kMarks;
using device::Mark;

// One task of a lane. Times are microseconds; what it has not passed has none.
struct Task {
  uint32_t position = 0;
  std::array<std::optional<double>, kMarks> at;

  std::optional<double> passed(Mark mark) const { return at[static_cast<size_t>(mark)]; }
  // Whatever it passed last of these.
  double last_of(std::initializer_list<Mark> marks, double otherwise) const {
    double last = otherwise;
    for (const Mark mark : marks) last = std::max(last, passed(mark).value_or(otherwise));
    return last;
  }
  double worked_until(double otherwise) const {
    return last_of({Mark::begun, Mark::multiplied, Mark::finished}, otherwise);
  }
};

struct LaneTasks {
  uint32_t lane = 0;
  double begin_us = 0;
  std::vector<Task> tasks;
};

uint64_t first_begin(const std::vector<KernelMarks>& kernels) {
  uint64_t first = UINT64_MAX;
  for (const KernelMarks& kernel : kernels) {
    for (size_t block = 0; block < kernel.lanes.size(); ++block) {
      const uint64_t begin = kernel.words.at(block);
      if (begin != 0) first = std::min(first, begin);
    }
  }
  return first;
}

std::vector<LaneTasks> tasks_of(const std::vector<KernelMarks>& kernels) {
  const uint64_t origin = first_begin(kernels);
  const auto time = [&](uint64_t word) -> std::optional<double> {
    // What an earlier run left is no time of this one.
    if (word == 0 || word < origin) return std::nullopt;
    return static_cast<double>(word - origin) / 1000;
  };
  std::vector<LaneTasks> lanes;
  for (const KernelMarks& kernel : kernels) {
    size_t word = kernel.lanes.size();
    for (size_t block = 0; block < kernel.lanes.size(); ++block) {
      LaneTasks& mine = lanes.emplace_back();
      mine.lane = kernel.lanes[block];
      mine.begin_us = time(kernel.words.at(block)).value_or(0);
      for (const uint32_t position : kernel.positions.at(block)) {
        Task& task = mine.tasks.emplace_back();
        task.position = position;
        for (auto& at : task.at) at = time(kernel.words.at(word++));
      }
    }
  }
  return lanes;
}

// The spans of one lane, one after the other.
class LaneSpans {
 public:
  LaneSpans(const Plan& plan, const LaneTasks& lane, std::vector<Span>& spans)
      : lane_(lane), instrs_(plan.lanes[lane.lane].instrs), spans_(spans) {}

  void add() {
    now_ = lane_.begin_us;
    for (size_t i = 0; i < lane_.tasks.size(); ++i) {
      const Task& task = lane_.tasks[i];
      const bool last = i + 1 == lane_.tasks.size();
      const uint32_t behind =
          i == 0 ? begin_of_kernel(task.position) : lane_.tasks[i - 1].position + 1;
      const uint32_t end =
          last ? first(Opcode::boundary, task.position, size()) : lane_.tasks[i + 1].position;
      if (const auto ready = task.passed(Mark::ready)) {
        span(first(Opcode::wait, behind, task.position), *ready);
      }
      now_ = std::max(now_, task.passed(Mark::begun).value_or(now_));
      const auto multiplied = task.passed(Mark::multiplied);
      if (multiplied) span(task.position, *multiplied);
      if (const auto finished = task.passed(Mark::finished)) {
        const uint32_t sum = multiplied ? first(Opcode::reduce, task.position, end) : task.position;
        const auto all_ready = task.passed(Mark::all_ready);
        if (multiplied && all_ready) span(first(Opcode::wait, task.position, sum), *all_ready);
        span(sum, *finished);
      }
      // While the next task is at work nobody waits for this one's notifies.
      const auto done = task.passed(Mark::done);
      if (done && (last || lane_.tasks[i + 1].passed(Mark::begun).value_or(*done) >= *done)) {
        span(first(Opcode::notify, task.position, end), *done);
      }
    }
  }

 private:
  uint32_t size() const { return static_cast<uint32_t>(instrs_.size()); }
  // A lane's instructions between boundaries are one kernel's.
  uint32_t begin_of_kernel(uint32_t position) const {
    uint32_t at = std::min(position, size());
    while (at > 0 && instrs_[at - 1].op != Opcode::boundary) --at;
    return at;
  }
  // Of the instruction at `position`, from now until `end`; none without such an instruction.
  void span(uint32_t position, double end) {
    if (end <= now_ || position >= size()) return;
    spans_.push_back({{lane_.lane, position}, now_, end, {kNoLane, 0}});
    now_ = end;
  }
  // The first such instruction of [begin, end), or size().
  uint32_t first(Opcode op, uint32_t begin, uint32_t end) const {
    for (uint32_t at = begin; at < std::min(end, size()); ++at) {
      if (instrs_[at].op == op) return at;
    }
    return size();
  }

  const LaneTasks& lane_;
  const std::vector<Instr>& instrs_;
  std::vector<Span>& spans_;
  double now_ = 0;
};

struct OfLane {
  double multiplying_us = 0, waiting_us = 0;
  bool first = true;  // none of its tasks has been the first that awaited others, or the first copy
};

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double last_mark(const std::vector<LaneTasks>& lanes) {
  double last = 0;
  for (const LaneTasks& lane : lanes) {
    for (const Task& task : lane.tasks) {
      for (const auto& at : task.at) last = std::max(last, at.value_or(0));
    }
  }
  return last;
}

}  // namespace

Timeline measured_timeline(const Plan& plan, const std::vector<std::vector<KernelMarks>>& by_rank) {
  Timeline timeline;
  for (const std::vector<KernelMarks>& kernels : by_rank) {
    const std::vector<LaneTasks> lanes = tasks_of(kernels);
    for (const LaneTasks& lane : lanes) LaneSpans(plan, lane, timeline.spans).add();
    timeline.total_us = std::max(timeline.total_us, last_mark(lanes));
  }
  std::stable_sort(timeline.spans.begin(), timeline.spans.end(),
                   [](const Span& a, const Span& b) { return a.end_us < b.end_us; });
  return timeline;
}

std::vector<RankTimes> times_by_rank(const Plan& plan,
                                     const std::vector<std::vector<KernelMarks>>& by_rank) {
  std::vector<RankTimes> rows;
  for (const std::vector<KernelMarks>& kernels : by_rank) {
    const std::vector<LaneTasks> lanes = tasks_of(kernels);
    RankTimes& row = rows.emplace_back();
    std::vector<double> first_tiles, multiplying, waiting, first_copied, first_told, notifying;
    std::map<uint32_t, OfLane> by_lane;  // of all kernels
    for (const LaneTasks& lane : lanes) {
      std::vector<Span> spans;
      LaneSpans(plan, lane, spans).add();
      row.rank = plan.lanes[lane.lane].rank;
      OfLane& own = by_lane[lane.lane];
      for (const Span& span : spans) {
        const Opcode op = plan.lanes[lane.lane].instrs[span.where.pos].op;
        if (op == Opcode::gemm) own.multiplying_us += span.end_us - span.start_us;
        if (op == Opcode::wait) own.waiting_us += span.end_us - span.start_us;
      }
      const bool computes = plan.lanes[lane.lane].kind == LaneKind::compute;
      bool& first = own.first;
      for (const Task& task : lane.tasks) {
        const auto ready = task.passed(Mark::ready), multiplied = task.passed(Mark::multiplied);
        const auto done = task.passed(Mark::done);
        const double worked = task.worked_until(0);
        if (done && worked > 0) notifying.push_back(*done - worked);
        if (computes && first && ready && multiplied) {
          first_tiles.push_back(*multiplied);
          first = false;
        }
        if (!computes && done && worked > 0) {
          if (first) {
            first_copied.push_back(worked);
            first_told.push_back(*done);
            first = false;
          }
          row.last_told_us = std::max(row.last_told_us, *done);
        }
      }
    }
    for (const auto& [lane, own] : by_lane) {
      if (plan.lanes[lane].kind != LaneKind::compute) continue;
      multiplying.push_back(own.multiplying_us);
      waiting.push_back(own.waiting_us);
      row.most_waiting_us = std::max(row.most_waiting_us, own.waiting_us);
    }
    row.first_tile_us = median(first_tiles);
    row.multiplying_us = median(multiplying);
    row.waiting_us = median(waiting);
    row.first_copied_us = median(first_copied);
    row.first_told_us = median(first_told);
    row.notify_us = median(notifying);
    row.end_us = last_mark(lanes);
  }
  return rows;
}

}  // namespace stretto::runtime

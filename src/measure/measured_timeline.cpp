#include "measure/measured_timeline.h"

#include <algorithm>

namespace stretto::runtime {
namespace {

using device::Mark;

// The spans of one lane, one after the other.
class LaneSpans {
 public:
  LaneSpans(const Plan& plan, const MarkedLane& lane, std::vector<Span>& spans)
      : lane_(lane), instrs_(plan.lanes[lane.lane].instrs), spans_(spans) {}

  void add() {
    now_ = lane_.begin_us;
    for (size_t i = 0; i < lane_.tasks.size(); ++i) {
      const MarkedTask& task = lane_.tasks[i];
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
        // Of a tile; or of the rank's part of the one before, or a mover's: then the task is the
        // sum.
        const uint32_t sum = multiplied ? first(Opcode::reduce, task.position, end) : task.position;
        if (const auto all_ready = task.passed(Mark::all_ready)) {
          span(first(Opcode::wait, multiplied ? task.position : behind, sum), *all_ready);
        }
        span(sum, *finished);
      }
      const auto done = task.passed(Mark::done);
      if (done && marks_its_end_alone(task, end)) span(task.position, *done);
      // While the next task is at work nobody waits for this one's notifies.
      if (done && (last || lane_.tasks[i + 1].passed(Mark::begun).value_or(*done) >= *done)) {
        span(first(Opcode::notify, task.position, end), *done);
      }
    }
  }

 private:
  // A task of a pass, or of rows behind tiles: it notifies nobody.
  bool marks_its_end_alone(const MarkedTask& task, uint32_t end) const {
    return task.worked_until() == 0 && task.position < size() &&
           instrs_[task.position].op != Opcode::gemm &&
           first(Opcode::notify, task.position, end) == size();
  }
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

  const MarkedLane& lane_;
  const std::vector<Instr>& instrs_;
  std::vector<Span>& spans_;
  double now_ = 0;
};

}  // namespace

Timeline measured_timeline(const Plan& plan, const std::vector<std::vector<KernelMarks>>& by_rank) {
  Timeline timeline;
  for (const std::vector<KernelMarks>& kernels : by_rank) {
    const std::vector<MarkedLane> lanes = marked_lanes(kernels);
    for (const MarkedLane& lane : lanes) LaneSpans(plan, lane, timeline.spans).add();
    timeline.total_us = std::max(timeline.total_us, last_mark(lanes));
  }
  std::stable_sort(timeline.spans.begin(), timeline.spans.end(),
                   [](const Span& a, const Span& b) { return a.end_us < b.end_us; });
  return timeline;
}

}  // namespace stretto::runtime

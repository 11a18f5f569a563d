#include "check/accesses.h"

#include <utility>

namespace stretto::checker {

Accesses::Accesses(const Plan& plan, const InstrIndex& index, const Execution& execution)
    : plan_(plan), last_reads_(plan.lanes.size()) {
  const std::vector<uint32_t>& in_order = execution.in_order();
  tasks_.reserve(in_order.size());
  std::vector<size_t> places(plan.buffers.size() * static_cast<size_t>(plan.ranks()), 0);
  for (const uint32_t at : in_order) {
    const InstrRef ref = index.ref(at);
    const Instr& instr = plan.lanes[ref.lane].instrs[ref.pos];
    if (!instr.is_task()) continue;
    const uint32_t first_write = instr.first_operand + instr.num_reads;
    tasks_.push_back(
        {ref.lane, at, instr.first_operand, first_write, first_write + instr.num_writes, instr.op});
    for_each_operand(tasks_.back(), [&](uint32_t, size_t place) { ++places[place]; });
  }
  size_t count = 0;
  for (size_t& place : places) count += std::exchange(place, count);

  touches_.resize(count);
  for (uint32_t task = 0; task < tasks_.size(); ++task) {
    for_each_operand(tasks_[task], [&](uint32_t operand, size_t place) {
      touches_[places[place]++] = {operand, task};
    });
  }
  ends_ = std::move(places);
}

template <typename Visit>
void Accesses::for_each_operand(const Task& task, const Visit& visit) const {
  for (uint32_t operand = task.first_operand; operand < task.end; ++operand) {
    const Region& region = plan_.operands[operand];
    if (region.empty() || plan_.buffers[region.buffer].role == BufferRole::input) continue;
    visit(operand, place(region.buffer, region.rank));
  }
}

std::span<const Access> Accesses::to(uint16_t buffer, uint16_t rank) {
  const size_t at = place(buffer, rank);
  found_.clear();
  for (size_t i = at == 0 ? 0 : ends_[at - 1]; i < ends_[at]; ++i) {
    const Touch& touch = touches_[i];
    const Task& task = tasks_[touch.task];
    found_.push_back({plan_.operands[touch.operand], task.lane, task.instr, task.op,
                      touch.operand >= task.first_write});
  }
  drop_reads_between();
  return found_;
}

void Accesses::drop_reads_between() {
  dropped_.assign(found_.size(), false);
  ++series_;
  bool any = false;
  for (uint32_t i = 0; i < found_.size(); ++i) {
    if (found_[i].is_write) {
      ++series_;
      continue;
    }
    LastRead& last = last_reads_[found_[i].lane];
    const bool again = last.series == series_ && found_[last.at].region == found_[i].region;
    if (again && !last.is_first) any = dropped_[last.at] = true;
    last = {series_, i, !again};
  }
  if (!any) return;
  size_t kept = 0;
  for (size_t i = 0; i < found_.size(); ++i) {
    if (!dropped_[i]) found_[kept++] = found_[i];
  }
  found_.resize(kept);
}

}  // namespace stretto::checker

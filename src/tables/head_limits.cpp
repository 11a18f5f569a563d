#include "tables/head_limits.h"

#include <algorithm>
#include <tuple>

namespace stretto::cuda {

void HeadLimits::pass(const InstrRef& at, size_t stretch, bool is_head, bool has_tiles) {
  const Lane& lane = plan_.lanes[at.lane];
  if (lane.kind != LaneKind::compute) return;
  const Instr& instr = lane.instrs[at.pos];
  if (instr.op == Opcode::notify && has_tiles && instr.rank == lane.rank) {
    told_behind_tiles_.push_back(told_at(at, stretch));
  }
  if (!is_head) return;
  for (uint32_t i = at.pos; i-- > 0 && lane.instrs[i].op != Opcode::boundary;) {
    const Instr& wait = lane.instrs[i];
    if (wait.op == Opcode::wait && wait.lag == 0) {
      head_waits_.push_back(told_at({at.lane, i}, stretch));
    }
  }
}

HeadLimits::Told HeadLimits::told_at(const InstrRef& at, size_t stretch) const {
  const SignalRef& signal = plan_.lanes[at.lane].instrs[at.pos].signal;
  return {plan_.lanes[at.lane].rank, stretch, signal.array, signal.index, at};
}

void HeadLimits::add_to(LimitList& limits) {
  const auto alike = [](const Told& a, const Told& b) {
    return std::tuple(a.rank, a.stretch, a.array, a.index) <
           std::tuple(b.rank, b.stretch, b.array, b.index);
  };
  std::sort(head_waits_.begin(), head_waits_.end(), alike);
  for (const Told& told : told_behind_tiles_) {
    const auto wait = std::lower_bound(head_waits_.begin(), head_waits_.end(), told, alike);
    if (wait == head_waits_.end() || alike(told, *wait)) continue;
    limits.add(
        "GPUs make partitions, and permute rows, ahead of the tiles between two boundaries: what "
        "they await must not be told behind one of these",
        wait->at);
    return;
  }
}

}  // namespace stretto::cuda

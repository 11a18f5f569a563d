#include "tables/task_counts.h"

#include <fmt/format.h>

namespace stretto::cuda {

void TaskCounts::count(const InstrRef& at, uint32_t first, uint32_t last) {
  const std::vector<Instr>& instrs = plan_.lanes[at.lane].instrs;
  for (uint32_t i = at.pos; i <= last; ++i) {
    if (instrs[i].is_task()) destinations_.raise_to(instrs[i].num_writes, at);
  }
  if (instrs.size() <= UINT8_MAX) return;  // no more syncs than that
  size_t waits = 0, notifies = 0;
  for (uint32_t i = first; i > 0 && instrs[i - 1].op == Opcode::wait; --i) ++waits;
  for (uint32_t i = first; i < last; ++i) {
    waits += instrs[i].op == Opcode::wait;
    notifies += instrs[i].op == Opcode::notify;
  }
  for (uint32_t i = last + 1; i < instrs.size() && instrs[i].op == Opcode::notify; ++i) {
    ++notifies;
  }
  waits_.raise_to(waits, at);
  notifies_.raise_to(notifies, at);
}

void TaskCounts::add_to(LimitList& limits) const {
  const auto add = [&](const Most& most, std::string_view what, std::string_view right) {
    if (most.count <= UINT8_MAX) return false;
    limits.add(fmt::format("a tile has {} {}, a task on the GPU at most {}: take {}", most.count,
                           what, UINT8_MAX, right),
               most.where);
    return true;
  };
  constexpr const char* kFewerOwners =
      "tiles of fewer rows, fewer ranks, or reduction=two-shot instead of one-shot";
  // One is enough: they come together.
  add(waits_, "waits", "sync=counter, or fewer comm-sms or k-phases") ||
      add(destinations_, "destinations", kFewerOwners) || add(notifies_, "notifies", kFewerOwners);
}

}  // namespace stretto::cuda

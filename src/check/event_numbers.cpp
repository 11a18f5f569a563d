#include "check/event_numbers.h"

namespace stretto::checker {

EventNumbers::EventNumbers(const Plan& plan, const InstrIndex& index)
    : of_(index.size(), 0), per_run_(plan.lanes.size(), 0) {
  for (uint32_t lane = 0; lane < plan.lanes.size(); ++lane) {
    const std::vector<Instr>& instrs = plan.lanes[lane].instrs;
    uint32_t count = 0;
    bool news = false;  // waits since the last event
    for (uint32_t pos = 0; pos < instrs.size(); ++pos) {
      const Opcode op = instrs[pos].op;
      if (op == Opcode::wait) {
        news = true;
        of_[index.of(lane, pos)] = count + 1;
        continue;
      }
      if (op == Opcode::notify) {
        if (news || count == 0) ++count;
      } else {
        if (op == Opcode::collective || (op == Opcode::boundary && news)) ++count;
        ++count;
      }
      news = false;
      of_[index.of(lane, pos)] = count;
    }
    per_run_[lane] = count + (news ? 1 : 0);
  }
}

}  // namespace stretto::checker

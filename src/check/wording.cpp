#include "check/wording.h"

#include <fmt/format.h>

#include "check/counters.h"

namespace stretto::checker {

std::string lane_name(const Plan& plan, uint32_t lane) { return describe(plan.lanes[lane]); }

std::string what(const Plan& plan, InstrRef ref) {
  const Instr& instr = plan.lanes[ref.lane].instrs[ref.pos];
  if (instr.op == Opcode::collective) {
    return fmt::format("{} {}", to_string(instr.collective), instr.id);
  }
  if (!instr.is_task()) return print(plan, plan.lanes[ref.lane], instr);
  return instr.tile >= 0 ? fmt::format("{} #{}", to_string(instr.op), instr.tile)
                         : std::string(to_string(instr.op));
}

std::string at(const Plan& plan, InstrRef ref) {
  return fmt::format("{} instruction {} ({})", lane_name(plan, ref.lane), ref.pos, what(plan, ref));
}

std::string name(const Plan& plan, const Counter& counter) {
  return fmt::format("{}@{}", describe(plan, counter.signal), counter.rank);
}

std::string counted(int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

}  // namespace stretto::checker

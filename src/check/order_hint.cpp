#include "check/order_hint.h"

#include <fmt/format.h>

#include "check/wording.h"

namespace stretto::checker {
namespace {

// The first notify of `rank`'s memory that the lane makes after `before`.
std::optional<InstrRef> next_notify(const Plan& plan, InstrRef before, uint16_t rank) {
  const std::vector<Instr>& instrs = plan.lanes[before.lane].instrs;
  for (uint32_t pos = before.pos + 1; pos < instrs.size(); ++pos) {
    if (instrs[pos].op == Opcode::notify && instrs[pos].rank == rank) {
      return InstrRef{before.lane, pos};
    }
  }
  return std::nullopt;
}

// The last wait for `signal` that the lane makes before `after`.
std::optional<InstrRef> last_wait(const Plan& plan, InstrRef after, const SignalRef& signal) {
  const std::vector<Instr>& instrs = plan.lanes[after.lane].instrs;
  for (uint32_t pos = after.pos; pos-- > 0;) {
    if (instrs[pos].op == Opcode::wait && instrs[pos].signal == signal) {
      return InstrRef{after.lane, pos};
    }
  }
  return std::nullopt;
}

}  // namespace

OrderHint order_hint(const Plan& plan, InstrRef before, InstrRef after, int lag) {
  const uint16_t rank = plan.lanes[after.lane].rank;
  const std::optional<InstrRef> notify = next_notify(plan, before, rank);
  const std::string waiter = lane_name(plan, after.lane);
  const std::string run = lag > 0 ? fmt::format(" with lag {}", lag) : "";
  if (before.lane == after.lane) {
    return {"", "swap them, or give one of them another place"};
  }
  if (!notify) {
    return {"",
            fmt::format("{} should notify a counter of rank {} after instruction {}, and {} "
                        "wait for it{} before instruction {}",
                        lane_name(plan, before.lane), rank, before.pos, waiter, run, after.pos)};
  }
  const SignalRef& counter = plan.lanes[notify->lane].instrs[notify->pos].signal;
  const std::string signal = fmt::format("{}@{}", describe(plan, counter), rank);
  const std::optional<InstrRef> wait = last_wait(plan, after, counter);
  if (wait) {
    return {signal,
            fmt::format("{} is notified after instruction {} of {}, but the wait at instruction {} "
                        "of {} does not need that notify to pass",
                        signal, before.pos, lane_name(plan, before.lane), wait->pos, waiter),
            {*notify, *wait}};
  }
  return {
      signal,
      fmt::format("{} should wait for {}{} before instruction {}", waiter, signal, run, after.pos),
      {*notify}};
}

}  // namespace stretto::checker

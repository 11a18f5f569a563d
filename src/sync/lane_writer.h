// Lanes with their waits and notifies, and operands lane by lane.
#pragma once

#include <utility>
#include <vector>

#include "stretto/plan.h"

namespace stretto {

class LaneWriter {
 public:
  explicit LaneWriter(Plan& plan) : plan_(plan) { operands_.reserve(plan.operands.size()); }

  // Rewrites the lane, which gets `added` instructions. sync_before(pos, instrs) appends the waits
  // of the instruction at `pos`, sync_after(pos, instrs) its notifies. Lanes come in their order.
  template <typename Before, typename After>
  void write(Lane& lane, size_t added, const Before& sync_before, const After& sync_after) {
    const std::vector<Instr>& instrs = unsynced_;
    unsynced_.assign(lane.instrs.begin(), lane.instrs.end());
    lane.instrs.clear();
    lane.instrs.reserve(instrs.size() + added);  // often there is room
    for (size_t pos = 0; pos < instrs.size(); ++pos) {
      // Operands still stand in the program's order: far apart.
      if (pos + kAhead < instrs.size()) {
        const auto* operand = &plan_.operands[instrs[pos + kAhead].first_operand];
        __builtin_prefetch(operand);
        __builtin_prefetch(operand + 3);
      }
      sync_before(pos, lane.instrs);
      Instr& instr = lane.instrs.emplace_back(instrs[pos]);
      if (instr.is_task()) {
        const auto from = plan_.operands.begin() + instr.first_operand;
        instr.first_operand = static_cast<uint32_t>(operands_.size());
        operands_.insert(operands_.end(), from, from + instr.num_reads + instr.num_writes);
      }
      sync_after(pos, lane.instrs);
    }
  }
  // Once all lanes are written.
  void finish() { plan_.operands = std::move(operands_); }

 private:
  static constexpr size_t kAhead = 20;  // instructions

  Plan& plan_;
  std::vector<Region> operands_;
  std::vector<Instr> unsynced_;  // of the lane that is written
};

inline void append_wait(std::vector<Instr>& instrs, SignalRef signal, int64_t amount, uint8_t lag) {
  Instr& wait = instrs.emplace_back();
  wait.op = Opcode::wait;
  wait.signal = signal;
  wait.amount = amount;
  wait.lag = lag;
}

inline void append_notify(std::vector<Instr>& instrs, SignalRef signal, uint16_t rank) {
  Instr& notify = instrs.emplace_back();
  notify.op = Opcode::notify;
  notify.signal = signal;
  notify.rank = rank;
  notify.amount = 1;
}

}  // namespace stretto

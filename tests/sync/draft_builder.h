// Builds small drafts by hand: every task names its lane and the regions that it reads and writes.
#pragma once

#include <initializer_list>
#include <string>

#include "stretto/lower.h"

namespace stretto {

class DraftBuilder {
 public:
  DraftBuilder(int ranks, Sync sync)
      : draft_{Segment{kGemmRs, 64, 64, 64 * int64_t{ranks}, ranks, DType::fp32},
               with(sync),
               Machine{},
               {},
               {},
               {}} {
    draft_.plan.op = draft_.op;
    draft_.plan.sms = 16;
  }

  uint16_t buffer(const std::string& name, BufferRole role, int copies = 1) {
    draft_.plan.buffers.push_back(
        {name, DType::fp32, role, 64, 64, 0, static_cast<uint8_t>(copies)});
    return static_cast<uint16_t>(draft_.plan.buffers.size() - 1);
  }
  uint32_t lane(LaneKind kind, int rank, int index) {
    draft_.plan.lanes.push_back(
        {kind, static_cast<uint16_t>(rank), static_cast<uint16_t>(index), {}});
    return static_cast<uint32_t>(draft_.plan.lanes.size() - 1);
  }
  void task(uint32_t lane, Opcode op, std::initializer_list<Region> reads,
            std::initializer_list<Region> writes) {
    Instr instr;
    instr.op = op;
    instr.first_operand = static_cast<uint32_t>(draft_.plan.operands.size());
    instr.num_reads = static_cast<uint16_t>(reads.size());
    instr.num_writes = static_cast<uint16_t>(writes.size());
    draft_.plan.operands.insert(draft_.plan.operands.end(), reads);
    draft_.plan.operands.insert(draft_.plan.operands.end(), writes);
    emit(lane, instr);
  }
  void boundary(std::initializer_list<uint32_t> lanes, int id) {
    for (uint32_t lane : lanes) {
      Instr instr;
      instr.op = Opcode::boundary;
      instr.id = id;
      emit(lane, instr);
    }
  }

  const Draft& draft() const { return draft_; }

  // The lanes after place_signals: "notify slots.0@1 += 1; wait slots.0 >= 2; reduce".
  std::string placed(uint32_t lane) {
    if (!draft_.program.empty()) place_signals(draft_);
    std::string text;
    for (const Instr& instr : draft_.plan.lanes[lane].instrs) {
      if (!text.empty()) text += "; ";
      text += to_string(instr.op);
      if (!instr.is_sync()) continue;
      text += " " + draft_.plan.signals[instr.signal.array].name + "." +
              std::to_string(instr.signal.index);
      if (instr.op == Opcode::notify) text += "@" + std::to_string(instr.rank) + " += ";
      if (instr.op == Opcode::wait) text += " >= ";
      text += std::to_string(instr.amount);
      if (instr.lag) text += " lag " + std::to_string(instr.lag);
    }
    return text;
  }

 private:
  static Schedule with(Sync sync) {
    Schedule schedule;
    schedule.sync = sync;
    return schedule;
  }
  void emit(uint32_t lane, const Instr& instr) {
    std::vector<Instr>& instrs = draft_.plan.lanes[lane].instrs;
    draft_.program.push_back({lane, static_cast<uint32_t>(instrs.size())});
    instrs.push_back(instr);
  }
  Draft draft_;
};

// Rows [row0, row1) of a buffer of the builder, all columns.
inline Region rows(uint16_t buffer, int rank, int row0, int row1) {
  return {row0, row1, 0, 64, buffer, static_cast<uint16_t>(rank)};
}

}  // namespace stretto

#include "lower/emitter.h"

namespace stretto {

Emitter::Emitter(Lowering& state)
    : state_(state), boundaries_(static_cast<size_t>(state.op.ranks), 0) {
  const auto tasks = static_cast<size_t>(state.num_tasks()) * static_cast<size_t>(state.op.ranks);
  state.program.reserve(2 * tasks);
  state.plan.operands.reserve(6 * tasks);
  // A few more than a lane's tiles: compute lanes may reduce too. With flags nearly every tile of a
  // reduction is told of, and awaited by a reduce.
  const auto tasks_each = static_cast<size_t>(state.num_tasks() / state.lanes.compute);
  const bool flags = state.pattern == Pattern::slot_reduce && state.schedule.sync == Sync::flag;
  const size_t reserved = flags ? 3 * tasks_each + 8 : tasks_each + tasks_each / 4 + 4;
  for (Lane& lane : state.plan.lanes) {
    if (lane.kind == LaneKind::compute) lane.instrs.reserve(reserved);
  }
}

void Emitter::task(uint32_t lane, Opcode op, int32_t tile) {
  Instr instr;
  instr.op = op;
  instr.tile = tile;
  append(lane, instr);
}

void Emitter::collective(int rank, CollectiveKind kind, int32_t id) {
  Instr instr;
  instr.op = Opcode::collective;
  instr.collective = kind;
  instr.id = id;
  append(state_.lanes.nccl_lane(rank), instr);
}

void Emitter::boundary(int rank) {
  const int32_t id = boundaries_[static_cast<size_t>(rank)]++;
  for (int i = 0; i < state_.lanes.compute; ++i) {
    Instr instr;
    instr.op = Opcode::boundary;
    instr.id = id;
    append(state_.lanes.compute_lane(rank, i), instr);
  }
}

void Emitter::append(uint32_t lane, Instr& instr) {
  const size_t operands = state_.plan.operands.size();
  STRETTO_ASSERT(operands <= UINT32_MAX, "too many operands");
  if (instr.is_task()) {
    instr.first_operand = static_cast<uint32_t>(operands) - num_reads_ - num_writes_;
    instr.num_reads = num_reads_;
    instr.num_writes = num_writes_;
    num_reads_ = num_writes_ = 0;
    __builtin_prefetch(state_.plan.operands.data() + operands + 26, 1);
  }
  std::vector<Instr>& instrs = state_.plan.lanes[lane].instrs;
  state_.program.push_back({lane, static_cast<uint32_t>(instrs.size())});
  instrs.push_back(instr);
  // Neighbours in the program are of different lanes: by the time that this one is written to
  // again, its next line of memory is there.
  __builtin_prefetch(&instrs.back() + 2, 1);
}

}  // namespace stretto

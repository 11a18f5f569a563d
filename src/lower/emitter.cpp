#include "lower/emitter.h"

#include <algorithm>
#include <utility>

#include "lower/opcode_of.h"
#include "lower/part_rows.h"
#include "plan/kernel_calls.h"

namespace stretto {

Emitter::Emitter(Lowering& state, const SegmentLowering& product)
    : Emitter(state, product.lanes, product.of_rows) {
  teams_ = product.op.teams;
  ranks_ = product.op.ranks;
  for (size_t i = 0; i < state.op.kernels.size() && !product.schedule.kernel.empty(); ++i) {
    if (state.op.kernels[i].name == product.schedule.kernel) kernel_ = i + 1;
  }
  const auto tasks =
      static_cast<size_t>(product.num_tasks()) * static_cast<size_t>(product.whole.ranks);
  state.program.reserve(state.program.size() + 2 * tasks);
  state.plan.operands.reserve(state.plan.operands.size() + 6 * tasks);
  // A few more than a lane's tiles: compute lanes may reduce too. With flags nearly every tile of a
  // reduction is told of, and awaited by a reduce.
  const auto tasks_each = static_cast<size_t>(product.num_tasks() / product.lanes.compute);
  const bool flags = product.pattern.adds_slots && product.schedule.sync == Sync::flag;
  const size_t reserved = flags ? 3 * tasks_each + 8 : tasks_each + tasks_each / 4 + 4;
  for (Lane& lane : state.plan.lanes) {
    if (lane.kind == LaneKind::compute) lane.instrs.reserve(lane.instrs.size() + reserved);
  }
}

void Emitter::task(uint32_t lane, Opcode op, int32_t tile) {
  Instr instr;
  instr.op = op;
  instr.tile = tile;
  if (part_ == nullptr) return append(lane, instr);
  append_of_part(lane, instr);
}

void Emitter::counted_task(uint32_t lane, Opcode op, std::initializer_list<int64_t> counts,
                           int32_t tile) {
  Instr instr;
  instr.op = op;
  instr.tile = tile;
  int i = 0;
  for (const int64_t count : counts) instr.set_count(i++, count);
  append_of_part(lane, instr);
}

void Emitter::stage(uint32_t lane, const Stage& stage, int32_t tile) {
  Instr instr;
  instr.op = opcode_of(stage.kind);
  instr.tile = tile;
  if (stage.kind == StageKind::norm) instr.set_attribute(static_cast<float>(stage.eps));
  if (chooses_experts(stage.kind)) {
    instr.set_count(0, stage.groups);
    instr.set_count(1, stage.best);
  } else if (weighs_experts(stage.kind)) {
    instr.set_attribute(static_cast<float>(stage.scale));
    instr.set_count(0, stage.normalises ? 1 : 0);
  } else if (stage.kind == StageKind::slice_ids) {
    instr.set_count(0, stage.experts);
    instr.set_count(1, stage.slices);
  } else if (stage.kind == StageKind::slice_weights) {
    instr.set_count(0, stage.slices);
  }
  append_of_part(lane, instr);
}

void Emitter::collective(int rank, CollectiveKind kind, int32_t id, float attribute,
                         int64_t count) {
  Instr instr;
  instr.op = Opcode::collective;
  instr.collective = kind;
  if (!first_collective_) first_collective_ = state_.collectives;
  instr.id = *first_collective_ + id;
  if (teams_ > 1) instr.team = static_cast<uint16_t>(ranks_);
  if (kernel_ > 0 && collective_of(state_.op.kernels[kernel_ - 1].edge) == kind) {
    instr.set_kernel(kernel_);
  }
  if (!form_of(kind).attribute.empty()) instr.set_attribute(attribute);
  if (!form_of(kind).count.empty()) instr.set_count(0, count);
  state_.collectives = std::max(state_.collectives, instr.id + 1);
  append_of_part(lanes_.nccl_lane(rank), instr);
}

void Emitter::boundary(int rank) {
  for (int team = 0; team < teams_; ++team) {
    const int of_all = team * ranks_ + rank;
    const int32_t id = state_.boundaries[static_cast<size_t>(of_all)]++;
    for (int i = 0; i < lanes_.all.compute; ++i) {
      Instr instr;
      instr.op = Opcode::boundary;
      instr.id = id;
      append_of_team(lanes_.compute_lane(of_all, i), instr);
    }
  }
}

void Emitter::append_of_part(uint32_t lane, Instr& instr) {
  if (part_ == nullptr) return append(lane, instr);
  const PartRows rows(state_, *part_);
  const size_t reads = num_reads_, count = reads + num_writes_;
  const std::vector<Region> counted = std::exchange(operands_, {});
  num_reads_ = num_writes_ = 0;
  const auto add = [&](size_t i, const Region& region) {
    rows.for_each_run(region, [&](const Region& run) { i < reads ? read(run) : write(run); });
  };
  // Of a task that takes one region of each operand, every owner's stripe is a task.
  const auto crosses = [&](const Region& region) { return rows.crosses(region); };
  const bool stacks = instr.op == Opcode::gemm || instr.op == Opcode::deliver;
  const bool is_collective = instr.op == Opcode::collective;
  const auto end = counted.begin() + static_cast<std::ptrdiff_t>(is_collective ? count : reads);
  const auto crossing = stacks ? end : std::find_if(counted.begin(), end, crosses);
  if (crossing == end) {
    for (size_t i = 0; i < count; ++i) add(i, counted[i]);
    return append(lane, instr);
  }
  if (is_collective) {  // regions of its ranks pair, in what they read and write
    for (size_t i = 0; i < count; ++i) {
      rows.for_each_stripe(counted[i], [&](const Region& stripe) { add(i, stripe); });
    }
    return append(lane, instr);
  }
  rows.for_each_stripe(*crossing, [&](const Region& stripe) {
    const int32_t from = stripe.row0 - crossing->row0, to = stripe.row1 - crossing->row0;
    for (size_t i = 0; i < count; ++i) {
      Region part = counted[i];
      // Not a row for all, nor a caller's tables, which may have as many.
      if (part.rows() == crossing->rows() && rows.has_rows(part)) {
        part.row1 = part.row0 + to;
        part.row0 += from;
      }
      add(i, part);
    }
    Instr of_stripe = instr;
    append(lane, of_stripe);
  });
}

bool Emitter::cut_to_buffers() {
  const size_t end = size_t{num_reads_} + num_writes_;
  bool had_result = false, has_result = false;  // collectives may have none before
  for (size_t i = 0; i < end; ++i) {
    Region& region = operands_[i];
    const Buffer& buffer = state_.plan.buffers[region.buffer];
    had_result = had_result || (i >= num_reads_ && !region.empty());
    region.col1 = std::min(region.col1, buffer.cols_on(region.rank));
    region.row1 = std::min(region.row1, buffer.rows_on(region.rank));
    region.col0 = std::min(region.col0, region.col1);
    region.row0 = std::min(region.row0, region.row1);
    has_result = has_result || (i >= num_reads_ && !region.empty());
  }
  const bool is_left = has_result || !had_result;
  if (!is_left) num_reads_ = num_writes_ = 0;
  return is_left;
}

void Emitter::append(uint32_t lane, Instr& instr) {
  if (teams_ == 1) return append_of_team(lane, instr);
  const uint16_t reads = num_reads_, writes = num_writes_;
  for (int team = 0; team < teams_; ++team) {
    num_reads_ = reads;
    num_writes_ = writes;
    for (int i = 0; team > 0 && i < reads + writes; ++i) {
      Region& region = operands_[static_cast<size_t>(i)];
      region.rank = static_cast<uint16_t>(region.rank + ranks_);
    }
    append_of_team(lane + static_cast<uint32_t>(team) * lanes_of_team(), instr);
  }
}

void Emitter::append_of_team(uint32_t lane, Instr& instr) {
  if (state_.cuts_columns && instr.is_task() && !cut_to_buffers()) return;
  if (instr.is_task()) {
    std::vector<Region>& operands = state_.plan.operands;
    const std::ptrdiff_t count = std::ptrdiff_t{num_reads_} + num_writes_;
    STRETTO_ASSERT(operands.size() + static_cast<size_t>(count) <= UINT32_MAX, "too many operands");
    instr.first_operand = static_cast<uint32_t>(operands.size());
    instr.num_reads = num_reads_;
    instr.num_writes = num_writes_;
    operands.insert(operands.end(), operands_.begin(), operands_.begin() + count);
    num_reads_ = num_writes_ = 0;
    __builtin_prefetch(operands.data() + operands.size() + 26, 1);
  }
  std::vector<Instr>& instrs = state_.plan.lanes[lane].instrs;
  state_.program.push_back({lane, static_cast<uint32_t>(instrs.size())});
  instrs.push_back(instr);
  // Neighbours in the program are of different lanes: by the time that this one is written to
  // again, its next line of memory is there.
  __builtin_prefetch(&instrs.back() + 2, 1);
}

}  // namespace stretto

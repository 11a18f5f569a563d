#include "mutants/edit_parts.h"

#include <algorithm>

namespace stretto::mutants {
namespace {

int64_t total(const Plan& plan, const SignalRef& signal, uint16_t rank) {
  int64_t sum = 0;
  for (const Lane& lane : plan.lanes) {
    for (const Instr& instr : lane.instrs) {
      const bool counts =
          instr.op == Opcode::notify && instr.rank == rank && instr.signal == signal;
      if (counts) sum += instr.amount;
    }
  }
  return sum;
}

// Signal `index` + 1 of the array becomes `index`.
void merge(Plan& plan, uint16_t array, int32_t index, bool with_sums) {
  const SignalRef kept{array, index}, merged{array, index + 1};
  for (Lane& lane : plan.lanes) {
    for (Instr& instr : lane.instrs) {
      if (!instr.is_sync() || (instr.signal != kept && instr.signal != merged)) continue;
      instr.signal = kept;
    }
  }
  if (!with_sums) return;
  for (Lane& lane : plan.lanes) {
    for (Instr& instr : lane.instrs) {
      if (instr.op == Opcode::wait && instr.signal == kept) {
        instr.amount = total(plan, kept, lane.rank);
      }
    }
  }
}

}  // namespace

void apply_to_task(Plan& plan, const Edit& edit, Instr& instr) {
  Region* reads = plan.operands.data() + instr.first_operand;
  Region* writes = reads + instr.num_reads;
  const auto ranks = static_cast<uint32_t>(plan.ranks());
  switch (edit.kind) {
    case EditKind::shrink:
      --reads[0].row1;
      for (uint16_t i = 0; i < instr.num_writes; ++i) {
        if (writes[i].rows() > 1) --writes[i].row1;
      }
      break;
    case EditKind::move_write: {
      Region& write = writes[edit.choice / (ranks - 1)];
      write.rank = static_cast<uint16_t>((write.rank + 1 + edit.choice % (ranks - 1)) % ranks);
      break;
    }
    case EditKind::grow:
      for (int i = 0; i < instr.num_reads + instr.num_writes; ++i) {
        if (i == 0 || reads[i].rows() == reads[0].rows() - 1) ++reads[i].row1;
      }
      break;
    case EditKind::shift_write: {
      for (uint16_t i = 0; i < instr.num_writes; ++i) {
        const int32_t by = edit.choice == 0 ? 1 : writes[i].rows();
        writes[i].row0 += by;
        writes[i].row1 += by;
      }
      break;
    }
    case EditKind::drop_operand: {
      Region* const gone = reads + edit.choice;
      std::rotate(gone, gone + 1, writes + instr.num_writes);
      --(edit.choice < instr.num_reads ? instr.num_reads : instr.num_writes);
      break;
    }
    case EditKind::swap_operands: {
      const uint32_t pairs = instr.num_reads > 1 ? instr.num_reads - 1u : 0u;
      Region* const at = edit.choice < pairs ? reads + edit.choice : writes + (edit.choice - pairs);
      std::swap(at[0], at[1]);
      break;
    }
    default: {  // move_read
      Region& read = reads[edit.choice / 2];
      const int32_t by = edit.choice % 2 == 0 ? read.rows() : -1;
      read.row0 = std::max(0, read.row0 + by);
      read.row1 = std::max(1, read.row1 + by);
    }
  }
}

void apply_to_lane(Plan& plan, const Edit& edit) {
  const Lane gone = plan.lanes[edit.at.lane];
  if (edit.kind == EditKind::drop_boundary) {
    const int32_t id = gone.instrs[edit.at.pos].id;
    for (Lane& lane : plan.lanes) {
      if (lane.rank != gone.rank) continue;
      std::erase_if(lane.instrs,
                    [&](const Instr& i) { return i.op == Opcode::boundary && i.id == id; });
    }
    return;
  }
  if (edit.kind == EditKind::join_lanes) {
    // It goes behind the next of its rank and kind, or before the last one.
    const auto is_alike = [&](const Lane& lane) {
      return lane.rank == gone.rank && lane.kind == gone.kind && lane.index != gone.index;
    };
    const auto other = std::find_if(plan.lanes.begin(), plan.lanes.end(), is_alike);
    if (other == plan.lanes.end()) return;
    other->instrs.insert(other->instrs.end(), gone.instrs.begin(), gone.instrs.end());
  }
  plan.lanes.erase(plan.lanes.begin() + edit.at.lane);
}

void apply_to_declarations(Plan& plan, const Edit& edit) {
  if (edit.kind == EditKind::copies) {
    Buffer& buffer = plan.buffers[edit.at.pos];
    buffer.copies = buffer.copies == 1 ? 2 : 1;
  } else if (edit.kind == EditKind::signal_copies) {
    SignalArray& array = plan.signals[edit.at.pos];
    array.copies = array.copies == 1 ? 2 : 1;
  } else {
    merge(plan, static_cast<uint16_t>(edit.at.pos), static_cast<int32_t>(edit.choice),
          edit.kind == EditKind::merge_sums);
  }
}

void apply_to_sync(Plan& plan, const Edit& edit, Instr& instr, uint16_t lane_rank) {
  const auto ranks = static_cast<uint32_t>(plan.ranks());
  switch (edit.kind) {
    case EditKind::lower:
      instr.amount = edit.choice == 0 ? instr.amount - 1 : 1;
      break;
    case EditKind::raise: {
      const int64_t most = total(plan, instr.signal, lane_rank);
      instr.amount = instr.amount < most ? most : instr.amount + 1;
      break;
    }
    case EditKind::add:
      ++instr.amount;
      break;
    case EditKind::other_signal: {
      const int32_t count = plan.signals[instr.signal.array].count;
      instr.signal.index = (instr.signal.index + 1 + static_cast<int32_t>(edit.choice)) % count;
      break;
    }
    case EditKind::other_rank:
      instr.rank = static_cast<uint16_t>((instr.rank + 1 + edit.choice) % ranks);
      break;
    case EditKind::lag:
      if (edit.choice == 0) ++instr.lag;
      if (edit.choice == 1 && instr.lag > 0) --instr.lag;
      break;
    default:
      ++instr.id;  // collective
  }
}

}  // namespace stretto::mutants

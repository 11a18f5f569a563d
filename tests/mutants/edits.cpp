#include "mutants/edits.h"

#include <fmt/format.h>

#include <algorithm>

namespace stretto::mutants {
namespace {

bool is_of_signals(EditKind kind) {
  return kind == EditKind::signal_copies || kind == EditKind::merge || kind == EditKind::merge_sums;
}
bool is_declared(EditKind kind) { return kind == EditKind::copies || is_of_signals(kind); }

// How many ways there are to edit an instruction so.
uint32_t choices(const Plan& plan, EditKind kind, const Lane& lane, uint32_t pos) {
  const Instr& instr = lane.instrs[pos];
  const bool has_next = pos + 1 < lane.instrs.size();
  const auto when = [](bool condition, uint32_t count = 1) { return condition ? count : 0u; };
  switch (kind) {
    case EditKind::delete_sync:
      return when(instr.is_sync());
    case EditKind::lower:
      return when(instr.op == Opcode::wait && instr.amount > 1, instr.amount > 2 ? 2 : 1);
    case EditKind::raise:
      return when(instr.op == Opcode::wait);
    case EditKind::add:
      return when(instr.op == Opcode::notify);
    case EditKind::repeat:
      return when(instr.op != Opcode::wait && instr.op != Opcode::boundary &&
                  instr.op != Opcode::collective);
    case EditKind::other_signal:
      return when(instr.is_sync(),
                  static_cast<uint32_t>(plan.signals[instr.signal.array].count - 1));
    case EditKind::other_rank:
      return when(instr.op == Opcode::notify, static_cast<uint32_t>(plan.ranks() - 1));
    case EditKind::lag:
      return when(instr.op == Opcode::wait, 2);
    case EditKind::swap:
      return when(has_next);
    case EditKind::sooner:
      return when(instr.op == Opcode::notify && pos > 0);
    case EditKind::later:
      return when(instr.op == Opcode::wait && has_next);
    case EditKind::drop_task:
      return when(instr.is_task());
    case EditKind::shrink:
      return when((instr.op == Opcode::copy || instr.op == Opcode::gemm) &&
                  plan.reads(instr)[0].rows() > 1);
    case EditKind::move_write:
      return when(instr.is_task() && instr.op != Opcode::collective,
                  static_cast<uint32_t>(instr.num_writes * (plan.ranks() - 1)));
    case EditKind::move_read:
      return when(instr.is_task(), 2u * instr.num_reads);
    case EditKind::drop_lane:
    case EditKind::join_lanes:
      return when(pos == 0);
    case EditKind::drop_boundary:
      return when(instr.op == Opcode::boundary && lane.index == 0);
    case EditKind::collective:
      return when(instr.op == Opcode::collective);
    default:
      return 0;
  }
}

Instr* before(std::vector<Instr>& instrs, uint32_t pos, Opcode skipped) {
  while (pos > 0 && instrs[pos - 1].op == skipped) --pos;
  return pos > 0 ? &instrs[pos - 1] : nullptr;
}

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
    // Behind the next of its rank and kind, or before the last one.
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

}  // namespace

std::string_view to_string(EditKind kind) {
  static constexpr std::string_view kTexts[] = {
#define STRETTO_TEXT(name, text) text,
      STRETTO_EDITS(STRETTO_TEXT)
#undef STRETTO_TEXT
  };
  return kTexts[static_cast<size_t>(kind)];
}

std::vector<Edit> edits_of(const Plan& plan, EditKind kind) {
  std::vector<Edit> edits;
  if (is_declared(kind)) {
    const size_t count = is_of_signals(kind) ? plan.signals.size() : plan.buffers.size();
    for (uint32_t i = 0; i < count; ++i) {
      const bool merges = kind == EditKind::merge || kind == EditKind::merge_sums;
      const int32_t choices = merges ? plan.signals[i].count - 1 : 1;
      for (int32_t c = 0; c < choices; ++c) edits.push_back({kind, {0, i}, uint32_t(c)});
    }
    return edits;
  }
  for (uint32_t lane = 0; lane < plan.lanes.size(); ++lane) {
    for (uint32_t pos = 0; pos < plan.lanes[lane].instrs.size(); ++pos) {
      const uint32_t count = choices(plan, kind, plan.lanes[lane], pos);
      for (uint32_t c = 0; c < count; ++c) edits.push_back({kind, {lane, pos}, c});
    }
  }
  return edits;
}

void apply(Plan& plan, const Edit& edit) {
  if (is_declared(edit.kind)) return apply_to_declarations(plan, edit);
  std::vector<Instr>& instrs = plan.lanes[edit.at.lane].instrs;
  const auto at = instrs.begin() + edit.at.pos;
  switch (edit.kind) {
    case EditKind::delete_sync:
    case EditKind::drop_task:
      instrs.erase(at);
      return;
    case EditKind::repeat:
      instrs.insert(at, Instr(*at));
      return;
    case EditKind::swap:
      std::iter_swap(at, at + 1);
      return;
    case EditKind::sooner:
      if (Instr* task = before(instrs, edit.at.pos, Opcode::notify)) {
        std::rotate(instrs.begin() + (task - instrs.data()), at, at + 1);
      }
      return;
    case EditKind::later: {
      auto task = at + 1;
      while (task + 1 != instrs.end() && task->op == Opcode::wait) ++task;
      std::rotate(at, at + 1, task + 1);
      return;
    }
    case EditKind::shrink:
    case EditKind::move_write:
    case EditKind::move_read:
      return apply_to_task(plan, edit, *at);
    case EditKind::drop_lane:
    case EditKind::join_lanes:
    case EditKind::drop_boundary:
      return apply_to_lane(plan, edit);
    default:
      return apply_to_sync(plan, edit, *at, plan.lanes[edit.at.lane].rank);
  }
}

std::string describe(const Plan& plan, const Edit& edit) {
  if (is_of_signals(edit.kind)) {
    return fmt::format("{}: {}.{}", to_string(edit.kind), plan.signals[edit.at.pos].name,
                       edit.choice);
  }
  if (is_declared(edit.kind)) {
    return fmt::format("{}: {}", to_string(edit.kind), plan.buffers[edit.at.pos].name);
  }
  const Lane& lane = plan.lanes[edit.at.lane];
  return fmt::format("{} ({}): {} instruction {} ({})", to_string(edit.kind), edit.choice,
                     stretto::describe(lane), edit.at.pos,
                     print(plan, lane, lane.instrs[edit.at.pos]));
}

}  // namespace stretto::mutants

#include "mutants/edits.h"

#include <fmt/format.h>

#include <algorithm>

#include "mutants/edit_parts.h"

namespace stretto::mutants {
namespace {

bool is_of_signals(EditKind kind) {
  return kind == EditKind::signal_copies || kind == EditKind::merge || kind == EditKind::merge_sums;
}
bool is_declared(EditKind kind) { return kind == EditKind::copies || is_of_signals(kind); }

// Regions that stand beside each other, both read or both written.
uint32_t choices_of_pairs(uint32_t reads, uint32_t writes) {
  return (reads > 1 ? reads - 1 : 0) + (writes > 1 ? writes - 1 : 0);
}

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
    case EditKind::grow:
      return when(instr.is_task() && instr.op != Opcode::collective && instr.num_reads > 0);
    case EditKind::shift_write:
      return when(instr.is_task() && instr.num_writes > 0, 2);
    case EditKind::drop_operand:
      return when(instr.is_task(), instr.num_reads + instr.num_writes);
    case EditKind::swap_operands:
      return when(instr.is_task(), choices_of_pairs(instr.num_reads, instr.num_writes));
    case EditKind::drop_lane:
    case EditKind::join_lanes:
      return when(pos == 0);
    case EditKind::drop_boundary:
      return when(instr.op == Opcode::boundary && lane.index == 0);
    case EditKind::collective:
      return when(instr.op == Opcode::collective);
    case EditKind::kernel:
      return when(instr.op == Opcode::collective && !plan.op.kernels.empty());
    case EditKind::drop_fused:
      return when(instr.fused);
    case EditKind::add_fused:
      return when(instr.form() == OpForm::task_kind && !instr.fused);
    default:
      return 0;
  }
}

Instr* before(std::vector<Instr>& instrs, uint32_t pos, Opcode skipped) {
  while (pos > 0 && instrs[pos - 1].op == skipped) --pos;
  return pos > 0 ? &instrs[pos - 1] : nullptr;
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
    case EditKind::kernel:
      at->set_kernel(at->kernel() > 0 ? 0 : 1);
      return;
    case EditKind::drop_fused:
    case EditKind::add_fused:
      at->fused = !at->fused;
      return;
    case EditKind::shrink:
    case EditKind::move_write:
    case EditKind::move_read:
    case EditKind::grow:
    case EditKind::shift_write:
    case EditKind::drop_operand:
    case EditKind::swap_operands:
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

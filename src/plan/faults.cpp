#include "plan/faults.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "core/text.h"
#include "core/text_limits.h"
#include "plan/operand_faults.h"
#include "stretto/error.h"

namespace stretto {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string fault_in_signal(const Plan& plan, const Instr& instr) {
  if (instr.signal.array >= plan.signals.size()) {
    return fmt::format("expected one of {} signal arrays, found number {}", plan.signals.size(),
                       instr.signal.array);
  }
  const SignalArray& array = plan.signals[instr.signal.array];
  if (instr.signal.index < 0 || instr.signal.index >= array.count) {
    return fmt::format("expected a signal of {} from 0 to {}, found {}", array.name,
                       array.count - 1, instr.signal.index);
  }
  if (instr.amount < 1) {
    return fmt::format("expected an amount of at least 1, found {}", instr.amount);
  }
  if (instr.op == Opcode::notify && instr.rank >= plan.ranks()) {
    return fmt::format("expected a rank below {}, found {}", plan.ranks(), instr.rank);
  }
  return {};
}

bool can_do(LaneKind kind, Worker worker) {
  switch (worker) {
    case Worker::gemm_kernel:
      return kind == LaneKind::compute;
    case Worker::mover_kernel:
      return kind == LaneKind::compute || kind == LaneKind::comm;
    case Worker::copy_engine:
      return kind != LaneKind::nccl;
  }
  STRETTO_ASSERT(false, "worker out of range");
}

// What a lane's resource can do. Any lane can wait, notify and deliver.
bool can_run(LaneKind kind, Opcode op) {
  switch (form_of(op)) {
    case OpForm::wait:
    case OpForm::notify:
    case OpForm::deliver:
      return true;
    case OpForm::boundary:
      return kind == LaneKind::compute;
    case OpForm::task_kind:
      return can_do(kind, kind_of(op)->worker);
    case OpForm::collective:
      return kind == LaneKind::nccl;
  }
  STRETTO_ASSERT(false, "form out of range");
}

}  // namespace

bool is_name(std::string_view text) {
  if (text.empty() || text.size() > kMaxNameLength || !is_letter(text[0])) return false;
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return is_letter(c) || is_digit(c) || c == '_'; });
}

// An operator has a schedule for each of its products.
bool is_schedule_text(std::string_view text, const Operator& op) {
  if (text.empty()) return true;
  if (text.size() > std::max<size_t>(1, op.segments.size()) * kMaxScheduleLength ||
      text.front() == ' ' || text.back() == ' ')
    return false;
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return c >= ' ' && c <= '~' && c != ';'; });
}

std::string fault_in(const Buffer& buffer) {
  if (!is_name(buffer.name)) {
    return fmt::format("expected a buffer's name, found {}", quote(buffer.name));
  }
  if (buffer.rows < 1 || buffer.cols < 1) {
    return fmt::format("expected buffer {} to have rows and columns, found {}x{}", buffer.name,
                       buffer.rows, buffer.cols);
  }
  if (buffer.sharded_rows < 0 || buffer.sharded_cols < 0) {
    return fmt::format("expected sharded rows and columns, or 0 for none, found {} and {}",
                       buffer.sharded_rows, buffer.sharded_cols);
  }
  if (buffer.copies < 1) {
    return fmt::format("expected at least one copy of buffer {}, found 0", buffer.name);
  }
  return {};
}

std::string fault_in(const Partition& partition) {
  if (!is_name(partition.name)) {
    return fmt::format("expected a partition's name, found {}", quote(partition.name));
  }
  if (partition.entries < 1 || partition.rows < 1 ||
      int64_t{partition.entries} * partition.rows > INT32_MAX) {
    return fmt::format("expected partition {} to have 1 to {} rows, found {}x{}", partition.name,
                       INT32_MAX, partition.entries, partition.rows);
  }
  if (partition.blocks < 1 || partition.entries % partition.blocks != 0) {
    return fmt::format("expected blocks of equal parts of {} entries, found {}", partition.entries,
                       partition.blocks);
  }
  if (partition.expected < 0 || partition.expected > partition.entries_of_block()) {
    return fmt::format("expected at most the {} entries of a block, found {}",
                       partition.entries_of_block(), partition.expected);
  }
  return {};
}

std::string fault_in(const Plan& plan, const Buffer& buffer) {
  if (buffer.partition < 0) return {};
  if (static_cast<size_t>(buffer.partition) >= plan.partitions.size()) {
    return fmt::format("expected one of {} partitions, found number {}", plan.partitions.size(),
                       buffer.partition);
  }
  const Partition& of = plan.partitions[static_cast<size_t>(buffer.partition)];
  const bool is_whole = buffer.sharded_rows == 0 && buffer.sharded_cols == 0;
  if (buffer.rows == of.entries * of.rows && is_whole) return {};
  return fmt::format("expected {} rows of buffer {}, the entries of {}, found {}",
                     of.entries * of.rows, buffer.name, of.name, buffer.rows);
}

std::string fault_in(const SignalArray& signals) {
  if (!is_name(signals.name)) {
    return fmt::format("expected a signal array's name, found {}", quote(signals.name));
  }
  if (signals.count < 0) {
    return fmt::format("expected a number of signals, found {}", signals.count);
  }
  if (signals.copies < 1) {
    return fmt::format("expected at least one copy of signals {}, found 0", signals.name);
  }
  return {};
}

std::string fault_in(const Plan& plan, const Lane* previous, const Lane& lane) {
  if (lane.rank >= plan.ranks()) {
    return fmt::format("expected a lane of a rank below {}, found {}", plan.ranks(),
                       describe(lane));
  }
  const auto place = [](const Lane& l) { return std::tuple(l.rank, l.kind, l.index); };
  if (previous != nullptr && place(*previous) >= place(lane)) {
    return fmt::format("expected lanes ordered by rank, kind and index, found {} after {}",
                       describe(lane), describe(*previous));
  }
  return {};
}

std::string fault_in(const Plan& plan, const Lane& lane, const Instr& instr) {
  if (!can_run(lane.kind, instr.op)) {
    return fmt::format("expected what a {} lane can do, found {}", to_string(lane.kind),
                       to_string(instr.op));
  }
  if (instr.is_sync()) return fault_in_signal(plan, instr);
  if (instr.op == Opcode::boundary) {
    return instr.id >= 0 ? std::string()
                         : fmt::format("expected a boundary's number, found {}", instr.id);
  }
  return fault_in_operands(plan, lane, instr);
}

}  // namespace stretto

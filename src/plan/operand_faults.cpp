#include "plan/operand_faults.h"

#include <fmt/format.h>

#include <cmath>
#include <span>

namespace stretto {
namespace {

std::string fault_in_regions(const Plan& plan, const Instr& instr) {
  const uint64_t stop = uint64_t{instr.first_operand} + instr.num_reads + instr.num_writes;
  if (stop > plan.operands.size()) {
    return fmt::format("expected operands among {}, found them to end at {}", plan.operands.size(),
                       stop);
  }
  for (uint64_t i = instr.first_operand; i < stop; ++i) {
    const Region& region = plan.operands[i];
    if (region.buffer >= plan.buffers.size()) {
      return fmt::format("expected one of {} buffers, found number {}", plan.buffers.size(),
                         region.buffer);
    }
    if (region.rank >= plan.ranks()) {
      return fmt::format("expected a rank below {}, found {}", plan.ranks(),
                         describe(plan, region));
    }
    if (region.row0 < 0 || region.col0 < 0 || region.row1 < region.row0 ||
        region.col1 < region.col0) {
      return fmt::format("expected ascending rows and columns, found {}", describe(plan, region));
    }
    if (region.empty() && instr.op != Opcode::collective) {
      return fmt::format("expected a region that is not empty, found {}", describe(plan, region));
    }
  }
  return {};
}

std::string shape(const Region& region) {
  return fmt::format("{}x{}", region.rows(), region.cols());
}

std::string found(std::string_view expected, const Plan& plan, const Region& region) {
  return fmt::format("expected {}, found {} of {}", expected, describe(plan, region),
                     shape(region));
}

// The rules of "Writes" in stretto/plan.h: stacked until the task's rows are covered, then again.
std::string fault_in_writes(const Plan& plan, const Instr& instr, int64_t rows, int32_t cols) {
  int64_t row = 0;
  for (const Region& write : plan.writes(instr)) {
    if (write.cols() != cols) {
      return found(fmt::format("a written region of {} columns", cols), plan, write);
    }
    row += write.rows();
    if (row > rows) {
      return found(fmt::format("written regions that stack to {} rows", rows), plan, write);
    }
    if (row == rows) row = 0;
  }
  if (row != 0 || instr.num_writes == 0) {
    return fmt::format("expected written regions that stack to {} rows, found {} rows", rows, row);
  }
  return {};
}

std::string fault_in_task(const Plan& plan, const TaskKind& kind, const Instr& instr) {
  const float attribute = instr.attribute();
  if (!kind.attribute.empty() && !(attribute > 0 && std::isfinite(attribute))) {
    return fmt::format("expected {} above 0, found {}", kind.attribute, attribute);
  }
  const std::span<const Region> reads = plan.reads(instr);
  if (const TaskFault fault = kind.fault(reads); fault.region != nullptr) {
    return found(fault.expected, plan, *fault.region);
  } else if (!fault.expected.empty()) {
    return fmt::format("expected {}, found {}", fault.expected, fault.found);
  }
  return fault_in_writes(plan, instr, kind.rows(reads), kind.cols(reads));
}

std::string fault_in_collective(const Plan& plan, const Lane& lane, const Instr& instr) {
  const size_t ranks = static_cast<size_t>(plan.ranks());
  const size_t reads = instr.num_reads, writes = instr.num_writes;
  if (instr.id < 0) return fmt::format("expected a collective's number, found {}", instr.id);
  // Where this rank's own part stands among the grouped operands.
  size_t own_read = 0, own_write = 0;
  size_t parts = 0, right_reads = 0, right_writes = 0;
  switch (instr.collective) {
    case CollectiveKind::all_gather:
      parts = right_reads = reads;
      right_writes = ranks * reads;
      own_write = lane.rank * parts;
      break;
    case CollectiveKind::reduce_scatter:
      parts = right_writes = writes;
      right_reads = ranks * writes;
      own_read = lane.rank * parts;
      break;
    case CollectiveKind::all_reduce:
      parts = right_reads = right_writes = reads;
      break;
  }
  if (parts == 0 || reads != right_reads || writes != right_writes) {
    return fmt::format("expected {} with {} ranks to read and write {}, found {} and {} regions",
                       to_string(instr.collective), ranks,
                       instr.collective == CollectiveKind::all_reduce ? "p and p regions"
                       : instr.collective == CollectiveKind::reduce_scatter
                           ? "ranks*p and p regions"
                           : "p and ranks*p regions",
                       reads, writes);
  }
  for (size_t i = 0; i < parts; ++i) {
    const Region& read = plan.reads(instr)[own_read + i];
    const Region& write = plan.writes(instr)[own_write + i];
    if (read.rows() != write.rows() || read.cols() != write.cols()) {
      return found(fmt::format("own part {} to have the shape {} that is read", i, shape(read)),
                   plan, write);
    }
  }
  return {};
}

std::string fault_in_deliver(const Instr& instr) {
  if (instr.num_reads == 0 || instr.num_writes != 0) {
    return fmt::format("expected deliver to read regions and write none, found {} and {}",
                       instr.num_reads, instr.num_writes);
  }
  return {};
}

}  // namespace

std::string fault_in_operands(const Plan& plan, const Lane& lane, const Instr& instr) {
  if (std::string fault = fault_in_regions(plan, instr); !fault.empty()) return fault;
  switch (instr.form()) {
    case OpForm::task_kind:
      return fault_in_task(plan, *instr.kind(), instr);
    case OpForm::collective:
      return fault_in_collective(plan, lane, instr);
    case OpForm::deliver:
      return fault_in_deliver(instr);
    case OpForm::wait:
    case OpForm::notify:
    case OpForm::boundary:
      break;
  }
  return {};
}

}  // namespace stretto

#include "plan/operand_faults.h"

#include <fmt/format.h>

#include <cmath>
#include <span>

#include "plan/chosen_operands.h"
#include "plan/kernel_calls.h"

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

bool is_table(const Plan& plan, const Region& region) {
  return is_index(plan.buffers[region.buffer].dtype);
}

bool is_wide(const Plan& plan, const Region& region) {
  return plan.buffers[region.buffer].dtype == DType::i64;
}

std::span<const Region> all_operands(const Plan& plan, const Instr& instr) {
  return {plan.operands.data() + instr.first_operand, size_t{instr.num_reads} + instr.num_writes};
}

std::string wrong_type(const Plan& plan, const Region& region) {
  return fmt::format("expected {}, found {} of {}",
                     is_wide(plan, region)    ? "no table of i64"
                     : is_table(plan, region) ? "no table of whole numbers"
                                              : "a table of i32",
                     describe(plan, region), to_string(plan.buffers[region.buffer].dtype));
}

// Numbers that say which rows are meant are never rounded, and nothing else is read as such. Those
// of 64 bits are what a caller chooses: plans make none.
std::string fault_in_types(const Plan& plan, const TaskKind& kind, const Instr& instr) {
  const std::span<const Region> all = all_operands(plan, instr);
  const bool moved = kind.moves_tables && is_table(plan, all[0]);
  for (size_t i = 0; i < all.size(); ++i) {
    const bool table =
        i < instr.num_reads ? i < 16 && (kind.reads_tables >> i & 1) != 0 : kind.makes_tables;
    if (is_table(plan, all[i]) != (table || moved)) return wrong_type(plan, all[i]);
    const bool may_be_wide =
        moved ? is_wide(plan, all[0]) : i < instr.num_reads && (kind.reads_ids >> i & 1) != 0;
    if (is_wide(plan, all[i]) && !may_be_wide) return wrong_type(plan, all[i]);
    if (moved && is_wide(plan, all[0]) != is_wide(plan, all[i])) {
      return wrong_type(plan, all[0]);
    }
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
  for (int i = 0; i < 2; ++i) {
    if (kind.counts[i].empty() || instr.count(i) >= kind.least_count) continue;
    return fmt::format("expected {} of at least {}, found {}", kind.counts[i], kind.least_count,
                       instr.count(i));
  }
  if (std::string fault = fault_in_types(plan, kind, instr); !fault.empty()) return fault;
  const std::span<const Region> writes = plan.writes(instr);
  if ((kind.rows_of_writes || kind.columns == ColumnsOf::writes) && writes.empty()) {
    return "expected a written region, found none";
  }
  std::string fault =
      fault_in_writes(plan, instr, kind.rows(reads, writes), kind.cols(reads, writes));
  if (!fault.empty() || kind.fault_in_result == nullptr) return fault;
  const TaskFault of_result = kind.fault_in_result(plan.operands_of(instr));
  if (of_result.region != nullptr) return found(of_result.expected, plan, *of_result.region);
  if (of_result.expected.empty()) return {};
  return fmt::format("expected {}, found {}", of_result.expected, of_result.found);
}

// Of a sum that is normed: the residual, the weights and the norm beside terms and sum.
std::string fault_in_norm(const Plan& plan, const Instr& instr) {
  const std::span<const Region> reads = plan.reads(instr), writes = plan.writes(instr);
  for (const Region* one : {&reads[1], &writes[1]}) {
    if (one->rows() != reads[0].rows() || one->cols() != reads[0].cols()) {
      return found(fmt::format("the shape {} of the terms", shape(reads[0])), plan, *one);
    }
  }
  if (reads[2].rows() != 1 || reads[2].cols() != reads[0].cols()) {
    return found(fmt::format("a row of {} weights", reads[0].cols()), plan, reads[2]);
  }
  if (!plan.low_latency_collectives) {
    return "expected all_reduce_norm in a plan with 'collectives low-latency', found none above";
  }
  return {};
}

std::string fault_in_collective(const Plan& plan, const Lane& lane, const Instr& instr) {
  const size_t reads = instr.num_reads, writes = instr.num_writes;
  if (instr.id < 0) return fmt::format("expected a collective's number, found {}", instr.id);
  if (instr.team > 0 && (instr.team >= plan.ranks() || plan.ranks() % instr.team != 0)) {
    return fmt::format(
        "expected teams of fewer ranks that divide {}, or no team where all join, found team={}",
        plan.ranks(), instr.team);
  }
  if (form_of(instr.collective).goes_by_ids()) {
    if (instr.kernel() > 0) return "expected no kernel of the graph's at rows that go by ids";
    return fault_in_chosen(plan, lane, instr);
  }
  const Plan::Joined joined = plan.joined_by(instr, lane.rank);
  const auto ranks = static_cast<size_t>(joined.count);
  const auto number = static_cast<size_t>(lane.rank - joined.first);
  // Where this rank's own part stands among the grouped operands.
  const CollectiveForm& form = form_of(instr.collective);
  const size_t moved_reads = reads - std::min<size_t>(reads, form.own_reads);
  const size_t moved_writes = writes - std::min<size_t>(writes, form.own_writes);
  const size_t parts = form.parts(reads, ranks);
  const size_t own_read = form.groups_reads ? number * parts : 0;
  const size_t own_write = form.groups_writes ? number * parts : 0;
  if (parts == 0 || moved_reads != parts * (form.groups_reads ? ranks : 1) ||
      moved_writes != parts * (form.groups_writes ? ranks : 1) ||
      (instr.collective == CollectiveKind::all_reduce_norm && parts != 1)) {
    return fmt::format(
        "expected {} with {} ranks to read and write {} regions, found {} and {} "
        "regions",
        to_string(instr.collective), ranks, form.operands, reads, writes);
  }
  for (size_t i = 0; i < parts; ++i) {
    const Region& read = plan.reads(instr)[own_read + i];
    const Region& write = plan.writes(instr)[own_write + i];
    if (read.rows() != write.rows() || read.cols() != write.cols()) {
      return found(fmt::format("own part {} to have the shape {} that is read", i, shape(read)),
                   plan, write);
    }
  }
  const std::span<const Region> all = all_operands(plan, instr);
  const bool tables = !form.adds && is_table(plan, all[0]);
  for (const Region& region : all) {
    if (is_table(plan, region) != tables) return wrong_type(plan, region);
    if (is_wide(plan, region) != is_wide(plan, all[0])) {
      return wrong_type(plan, is_wide(plan, region) ? region : all[0]);
    }
  }
  if (instr.kernel() > 0) return fault_in_kernel_call(plan, instr);
  return instr.collective == CollectiveKind::all_reduce_norm ? fault_in_norm(plan, instr) : "";
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

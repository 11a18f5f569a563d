#include "tables/routed_kinds.h"

#include <fmt/format.h>

#include <algorithm>

#include "plan/on_kernel.h"
#include "stretto/error.h"

namespace stretto::cuda {

const tasks::RoutedKernel& routed_kernel_of(Opcode op) {
  STRETTO_ASSERT(is_routed_move(op), "no kind of task that the kernel of rows has");
  return *kind_of(op)->kernels.routed;
}

bool is_routed_move(Opcode op) {
  const TaskKind* const kind = kind_of(op);
  return kind != nullptr && kind->kernels.routed != nullptr;
}

bool stores_by_choice(Opcode op) {
  return is_routed_move(op) && routed_kernel_of(op).stores_by_choice;
}

std::string why_no_routed_task(const Plan& plan, const Instr& instr) {
  const tasks::RoutedKernel& kernel = routed_kernel_of(instr.op);
  if (kernel.why_not != nullptr) {
    std::string why = kernel.why_not(OnKernel(plan, instr).operands());
    if (!why.empty()) return why;
  }
  // Tables for all experts, or for a partition, are as long as these ask for.
  if (instr.kind()->rows_of_writes) return "";
  const auto reads = plan.reads(instr), writes = plan.writes(instr);
  const int32_t rows = writes[0].rows();
  const bool alike = std::all_of(writes.begin(), writes.end(), [&](const Region& to) {
    return to.rows() == rows &&
           plan.buffers[to.buffer].dtype == plan.buffers[writes[0].buffer].dtype;
  });
  if (!alike || reads[0].rows() != rows) {
    return fmt::format("GPUs {} all rows of a task to each place that it writes",
                       to_string(instr.op));
  }
  const int64_t widest = std::max(writes[0].cols(), reads[0].cols());
  if (widest > kMaxDim) {  // and lanes go on from column to column in as many
    return fmt::format("a block makes rows of at most {} columns, found {}", kMaxDim, widest);
  }
  if (writes[0].elements() > INT32_MAX) {  // kernels count them in 32 bits
    return fmt::format("a block makes at most {} elements at once: take tiles of fewer rows",
                       INT32_MAX);
  }
  return "";
}

}  // namespace stretto::cuda

// grouped_gemm each=S A EXPERTS B -> C..: C = A times the transpose of the matrix of the stack B
// that EXPERTS, a number for each entry, names. Undefined where the entry is empty.
#include <fmt/format.h>

#include "tasks/kinds.h"
#include "tasks/stacks.h"
#include "tasks/tables.h"

namespace stretto::tasks {
namespace {

TaskFault fault_in_grouped(std::span<const Region> reads) {
  if (reads.size() != 3) {
    return {"three regions: A, EXPERTS and B", nullptr, fmt::format("{}", reads.size())};
  }
  TaskFault fault = fault_in_entries(reads[1], reads[0]);
  if (!fault.expected.empty()) return fault;
  if (reads[0].cols() != reads[2].cols()) {
    return {fmt::format("a region of A with the {} columns of B", reads[2].cols()), &reads[0]};
  }
  return {};
}

void multiply(const Work& work) {
  for_each_entry(work, [&](int64_t first, int64_t last, int32_t expert) {
    if (has_expert(work, expert)) {
      MatrixView a = work.reads[0].view;
      a.data = work.reads[0].row(first);
      return multiply_by_expert(work, a, first, last - first, expert);
    }
    for (int64_t row = first; row < last; ++row) leave_undefined(work, row);
  });
}

}  // namespace

const TaskKind grouped_gemm = {.worker = Worker::gemm_kernel,
                               .cost = {.rate = Rate::mmas, .flops = flops_of_stack},
                               .kernels = {.by = KernelKind::gemm, .of_entries = true},
                               .in_tile = TileRole::product,
                               .num_others = 2,
                               .columns = ColumnsOf::writes,
                               .counts = {"each"},
                               .reads_tables = 0b10,
                               .fault = fault_in_grouped,
                               .compute = multiply,
                               .fault_in_result = fault_in_stack};

}  // namespace stretto::tasks

#include "tasks/stacks.h"

#include <fmt/format.h>

namespace stretto::tasks {

TaskFault fault_in_entries(const Region& experts, const Region& rows) {
  if (experts.cols() == 1 && rows.rows() % experts.rows() == 0) return {};
  return {fmt::format("one column of experts, of entries that {} rows make up", rows.rows()),
          &experts};
}

TaskFault fault_in_stack(const KindOperands& of) {
  const Region& stack = of.reads.back();
  const int64_t each = of.counts[0], width = of.writes[0].cols();
  if (width <= each && stack.rows() >= width && (stack.rows() - width) % each == 0) return {};
  return {fmt::format("{} rows of every {} of a stack", width, each), &stack};
}

double flops_of_stack(std::span<const Region> reads, std::span<const Region> writes, int64_t rows) {
  return 2.0 * static_cast<double>(rows) * writes[0].cols() * reads.back().cols();
}

bool has_expert(const Work& work, int32_t expert) {
  const int64_t first = int64_t{work.operands.counts[0]} * expert;
  return expert >= 0 && first + work.cols <= work.reads.back().rows;
}

void multiply_by_expert(const Work& work, const MatrixView& a, int64_t from, int64_t rows,
                        int32_t expert) {
  const Operand& stack = work.reads.back();
  MatrixView b = stack.view;
  b.data = stack.row(int64_t{work.operands.counts[0]} * expert);
  work.scratch.gemm.run(rows, work.cols, stack.cols, a, b,
                        {work.row(from), work.to.stride, work.to.dtype});
}

}  // namespace stretto::tasks

// gemm A.. B -> C..: C = A * B^T in fp32, rounded once.
#include <fmt/format.h>

#include "tasks/kinds.h"
#include "tasks/work.h"

namespace stretto::tasks {
namespace {

TaskFault fault_in_gemm(std::span<const Region> reads) {
  if (reads.size() < 2) {
    return {"regions of A, then one of B", nullptr, fmt::format("{} read regions", reads.size())};
  }
  const Region& b = reads.back();
  for (const Region& a : reads.first(reads.size() - 1)) {
    if (a.cols() == b.cols()) continue;
    return {fmt::format("a region of A with the {} columns of B", b.cols()), &a};
  }
  return {};
}

void multiply(const Work& work) {
  const Operand& b = work.reads.back();
  int64_t row = 0;
  for (const Operand& a : work.reads.first(work.reads.size() - 1)) {
    if (a.rows == 0) continue;
    work.scratch.gemm.run(a.rows, b.rows, b.cols, a.view, b.view,
                          {work.row(row), work.to.stride, work.to.dtype});
    row += a.rows;
  }
}

double flops_of_gemm(std::span<const Region> reads, std::span<const Region>, int64_t rows) {
  return 2.0 * static_cast<double>(rows) * static_cast<double>(reads.back().elements());
}

}  // namespace

const TaskKind gemm = {.worker = Worker::gemm_kernel,
                       .cost = {.rate = Rate::mmas, .flops = flops_of_gemm},
                       .kernels = {.by = KernelKind::gemm},
                       .in_tile = TileRole::product,
                       .num_others = 1,
                       .stacks = true,
                       .columns = ColumnsOf::rows_of_last_read,
                       .fault = fault_in_gemm,
                       .compute = multiply};

}  // namespace stretto::tasks

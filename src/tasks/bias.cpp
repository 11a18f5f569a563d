// bias X B -> Y..: Y = X + B, one row that is added to all.
#include "tasks/kinds.h"
#include "tasks/rows.h"
#include "tasks/shapes.h"

namespace stretto::tasks {
namespace {

TaskFault fault_in_bias(std::span<const Region> reads) {
  TaskFault fault = fault_in_number(reads, 2, "two regions, X and B");
  return fault.expected.empty() ? fault_in_shared_row(reads) : fault;
}

void compute_bias(const Work& work) {
  const float* const b = wide_row(work.reads[1], 0, work.scratch.line);
  for (int64_t row = 0; row < work.rows; ++row) {
    float* const x = wide_row(work.reads[0], row, work.scratch.sums);
    for (int64_t col = 0; col < work.cols; ++col) x[col] += b[col];
    round_row(work, row, x);
  }
}

}  // namespace

const TaskKind bias = {.worker = Worker::mover_kernel,
                       .cost = {.rate = Rate::sums, .in_registers_ps = 32},
                       .kernels = {.by = KernelKind::elements},
                       .in_tile = TileRole::row,
                       .num_others = 1,
                       .fault = fault_in_bias,
                       .compute = compute_bias};

}  // namespace stretto::tasks

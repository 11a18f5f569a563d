// swiglu G U -> Y..: Y = silu(G) * U, element by element.
#include "tasks/activations.h"
#include "tasks/kinds.h"
#include "tasks/rows.h"
#include "tasks/shapes.h"

namespace stretto::tasks {
namespace {

TaskFault fault_in_swiglu(std::span<const Region> reads) {
  TaskFault fault = fault_in_number(reads, 2, "two regions, G and U");
  return fault.expected.empty() ? fault_in_shapes(reads) : fault;
}

void compute_swiglu(const Work& work) {
  for (int64_t row = 0; row < work.rows; ++row) {
    float* const g = wide_row(work.reads[0], row, work.scratch.sums);
    const float* const u = wide_row(work.reads[1], row, work.scratch.line);
    for (int64_t col = 0; col < work.cols; ++col) g[col] = silu_of(g[col]) * u[col];
    round_row(work, row, g);
  }
}

}  // namespace

const TaskKind swiglu = {.worker = Worker::mover_kernel,
                         .follows_in_registers = true,
                         .fault = fault_in_swiglu,
                         .compute = compute_swiglu};

}  // namespace stretto::tasks

// swiglu G U -> Y..: Y = silu(G) * U, element by element.
#include "stretto/device/gemm_task.h"
#include "stretto/device/mover_task.h"
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
                         .cost = {.rate = Rate::sums, .in_registers_ps = 72},
                         .kernels = {.by = KernelKind::elements,
                                     .map = device::MoverMap::swiglu,
                                     .follower = device::Follower::swiglu},
                         .in_tile = TileRole::gate,
                         .fault = fault_in_swiglu,
                         .compute = compute_swiglu};

}  // namespace stretto::tasks

// silu X -> Y..: Y = X / (1 + e^-X), element by element.
#include "stretto/device/gemm_task.h"
#include "stretto/device/mover_task.h"
#include "tasks/activations.h"
#include "tasks/kinds.h"
#include "tasks/rows.h"
#include "tasks/shapes.h"

namespace stretto::tasks {
namespace {

TaskFault fault_in_silu(std::span<const Region> reads) {
  return fault_in_number(reads, 1, "one region, X");
}

void compute_silu(const Work& work) { map_elements(work, silu_of); }

}  // namespace

const TaskKind silu = {.worker = Worker::mover_kernel,
                       .cost = {.rate = Rate::sums, .in_registers_ps = 92},
                       .kernels = {.by = KernelKind::elements,
                                   .map = device::MoverMap::silu,
                                   .follower = device::Follower::silu},
                       .in_tile = TileRole::activation,
                       .fault = fault_in_silu,
                       .compute = compute_silu};

}  // namespace stretto::tasks

// gelu X -> Y..: the Gaussian error linear unit in its tanh form, element by element.
#include "stretto/device/gemm_task.h"
#include "stretto/device/mover_task.h"
#include "tasks/activations.h"
#include "tasks/kinds.h"
#include "tasks/rows.h"
#include "tasks/shapes.h"

namespace stretto::tasks {
namespace {

TaskFault fault_in_gelu(std::span<const Region> reads) {
  return fault_in_number(reads, 1, "one region, X");
}

void compute_gelu(const Work& work) { map_elements(work, gelu_of); }

}  // namespace

const TaskKind gelu = {.worker = Worker::mover_kernel,
                       .cost = {.rate = Rate::sums, .in_registers_ps = 94},
                       .kernels = {.by = KernelKind::elements,
                                   .map = device::MoverMap::gelu,
                                   .follower = device::Follower::gelu},
                       .in_tile = TileRole::activation,
                       .fault = fault_in_gelu,
                       .compute = compute_gelu};

}  // namespace stretto::tasks

// silu X -> Y..: Y = X / (1 + e^-X), element by element.
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
                       .follows_in_registers = true,
                       .fault = fault_in_silu,
                       .compute = compute_silu};

}  // namespace stretto::tasks

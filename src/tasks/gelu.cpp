// gelu X -> Y..: the Gaussian error linear unit in its tanh form, element by element.
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
                       .follows_in_registers = true,
                       .fault = fault_in_gelu,
                       .compute = compute_gelu};

}  // namespace stretto::tasks

// norm eps=E X W -> Y..: RMSNorm of every row, Y = X / sqrt(mean(X^2) + E) * W. Rows are whole: the
// mean is over all columns of X.
#include <cmath>

#include "tasks/kinds.h"
#include "tasks/rows.h"
#include "tasks/shapes.h"

namespace stretto::tasks {
namespace {

TaskFault fault_in_norm(std::span<const Region> reads) {
  TaskFault fault = fault_in_number(reads, 2, "two regions, X and W");
  return fault.expected.empty() ? fault_in_shared_row(reads) : fault;
}

// Squares are added in fp64: the definition takes no side between the orders in which GPUs add.
void compute_norm(const Work& work) {
  const float* const w = wide_row(work.reads[1], 0, work.scratch.line);
  for (int64_t row = 0; row < work.rows; ++row) {
    float* const x = wide_row(work.reads[0], row, work.scratch.sums);
    double squares = 0;
    for (int64_t col = 0; col < work.cols; ++col) squares += double{x[col]} * x[col];
    const double mean = squares / static_cast<double>(work.cols);
    const auto scale = static_cast<float>(1 / std::sqrt(mean + double{work.attribute}));
    for (int64_t col = 0; col < work.cols; ++col) x[col] = x[col] * scale * w[col];
    round_row(work, row, x);
  }
}

}  // namespace

const TaskKind norm = {.worker = Worker::mover_kernel,
                       .cost = {.rate = Rate::sums},
                       .kernels = {.by = KernelKind::norm},
                       .in_tile = TileRole::norm,
                       .num_others = 1,
                       .attribute = "eps",
                       .fault = fault_in_norm,
                       .compute = compute_norm};

}  // namespace stretto::tasks

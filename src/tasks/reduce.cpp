// reduce X.. -> Y..: Y = the sum of the X in the order listed, in fp32, rounded once.
#include "tasks/elements.h"
#include "tasks/kinds.h"
#include "tasks/routed_kernel.h"
#include "tasks/shapes.h"
#include "tasks/work.h"

namespace stretto::tasks {
namespace {

TaskFault fault_in_reduce(std::span<const Region> reads) {
  if (reads.empty()) return {"at least one region to add", nullptr, "none"};
  return fault_in_shapes(reads);
}

void add(const Work& work) {
  const auto cols = static_cast<size_t>(work.cols);
  std::vector<float>& sums = work.scratch.sums;
  sums.resize(static_cast<size_t>(work.rows) * cols);
  bool is_first = true;
  for (const Operand& read : work.reads) {
    float* sum = sums.data();
    for (int64_t row = 0; row < work.rows; ++row, sum += cols) {
      if (is_first) {
        widen(read.view.dtype, read.row(row), sum, cols);
      } else {
        add_elements(read.view.dtype, read.row(row), sum, cols);
      }
    }
    is_first = false;
  }
  for (int64_t row = 0; row < work.rows; ++row) {
    round_elements(work.to.dtype, sums.data() + static_cast<size_t>(row) * cols, work.row(row),
                   cols);
  }
}

bool passes(const KernelOperands& on) {
  return on.of.reads.size() <= static_cast<size_t>(kTermsOfPass);
}

// Beside tables plain sums are tasks of routed rows too.
constexpr RoutedKernel kByTables{
    .kind = device::RoutedKind::reduce, .moves = RoutedMoves::all_sources, .passes = passes};

}  // namespace

const TaskKind reduce = {.worker = Worker::mover_kernel,
                         .cost = {.rate = Rate::sums},
                         .kernels = {.by = KernelKind::elements, .routed = &kByTables},
                         .in_tile = TileRole::sum,
                         .adds_terms = true,
                         .fault = fault_in_reduce,
                         .compute = add};

}  // namespace stretto::tasks

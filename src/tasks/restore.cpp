// restore X.. R.. -> Y..: the X side by side, plus the R, in fp32 in the order listed, rounded
// once. What was stored tile by tile gets its rows back, and a residual, on its way to a norm.
#include <fmt/format.h>

#include "tasks/elements.h"
#include "tasks/kinds.h"
#include "tasks/shapes.h"
#include "tasks/work.h"

namespace stretto::tasks {
namespace {

TaskFault fault_in_restore(std::span<const Region> reads) {
  if (reads.empty()) return {"at least one region to put in its place", nullptr, "none"};
  for (const Region& read : reads) {
    if (read.rows() == reads[0].rows()) continue;
    return {fmt::format("regions of {} rows", reads[0].rows()), &read};
  }
  return {};
}

TaskFault fault_in_widths(const KindOperands& operands) {
  const std::span<const Region> reads = operands.reads;
  const int32_t cols = operands.writes[0].cols();
  const size_t tiles = tiles_beside(reads, cols);
  int64_t together = 0;
  for (const Region& read : reads.first(tiles)) together += read.cols();
  if (together != cols) {
    return {fmt::format("regions that are {} columns wide side by side", cols), nullptr,
            fmt::format("{} columns", together)};
  }
  for (const Region& read : reads.subspan(tiles)) {
    if (read.cols() != cols) return {fmt::format("a region of {} columns to add", cols), &read};
  }
  return {};
}

void put_in_place(const Work& work) {
  const auto cols = static_cast<size_t>(work.cols);
  std::vector<float>& sums = work.scratch.sums;
  sums.resize(static_cast<size_t>(work.rows) * cols);
  size_t first = 0;  // column of the next region
  for (const Operand& read : work.reads) {
    const bool adds = first == cols;
    const auto wide = static_cast<size_t>(read.cols);
    for (int64_t row = 0; row < work.rows; ++row) {
      float* const sum = sums.data() + static_cast<size_t>(row) * cols;
      if (adds) {
        add_elements(read.view.dtype, read.row(row), sum, cols);
      } else {
        widen(read.view.dtype, read.row(row), sum + first, wide);
      }
    }
    if (!adds) first += wide;
  }
  for (int64_t row = 0; row < work.rows; ++row) {
    round_elements(work.to.dtype, sums.data() + static_cast<size_t>(row) * cols, work.row(row),
                   cols);
  }
}

}  // namespace

// A row is pieces of 512 bytes that one lane asks for, so it takes longer than its bytes: fitted to
// what norms with it took longer than copies and norms on two H200s, 34 us of 2048 rows of 8192
// columns and 184 of 8192 (bench/results/norms_restored_h200_x2.json).
constexpr double kTimes = 3.8;

const TaskKind restore = {.worker = Worker::mover_kernel,
                          .cost = {.rate = Rate::sums, .times = kTimes},
                          .kernels = {.by = KernelKind::tiles},
                          .in_tile = TileRole::none,
                          .columns = ColumnsOf::writes,
                          .adds_terms = true,
                          .fault = fault_in_restore,
                          .compute = put_in_place,
                          .fault_in_result = fault_in_widths};

}  // namespace stretto::tasks

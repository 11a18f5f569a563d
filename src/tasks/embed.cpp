// embed each=S IDS W -> Y..: pooled look-ups. W has tables of S rows, one below the other; a row of
// IDS picks as many rows of each, table after table, and that of Y has their sum of each table,
// side by side. -1 picks none, nor does what is no row of the table. embed_mean divides by how many
// were picked.
#include <fmt/format.h>

#include <cmath>

#include "tasks/kinds.h"
#include "tasks/routed_kernel.h"
#include "tasks/rows.h"
#include "tasks/shapes.h"
#include "tasks/tables.h"

namespace stretto::tasks {
namespace {

TaskFault fault_in_look_ups(std::span<const Region> reads) {
  return fault_in_number(reads, 2, "two regions, IDS and W");
}

TaskFault fault_in_pools(const KindOperands& of) {
  const Region &ids = of.reads[0], &w = of.reads[1];
  if (w.rows() % of.counts[0] != 0) {
    return {fmt::format("tables of {} rows each", of.counts[0]), &w};
  }
  const int64_t tables = w.rows() / of.counts[0];
  if (ids.cols() % tables != 0) {
    return {fmt::format("as many columns for each of {} tables", tables), &ids};
  }
  const int64_t cols = tables * w.cols();
  if (of.writes[0].cols() != cols) {
    return {fmt::format("{} columns of {} tables", cols, tables), &of.writes[0]};
  }
  return {};
}

void add_picked(const Work& work, bool is_mean) {
  const Operand &ids = work.reads[0], &w = work.reads[1];
  const int64_t each = work.operands.counts[0], tables = w.rows / each;
  const int64_t slots = ids.cols / tables;
  std::vector<float>& line = work.scratch.line;
  line.resize(static_cast<size_t>(work.cols));
  std::vector<float>& sums = work.scratch.sums;
  int64_t bad = 0;
  for (int64_t row = 0; row < work.rows; ++row) {
    for (int64_t table = 0; table < tables; ++table) {
      sums.assign(static_cast<size_t>(w.cols), 0.0f);
      int64_t picked = 0;
      for (int64_t slot = 0; slot < slots; ++slot) {
        const int64_t at = number_in(ids, row, table * slots + slot);
        if (at < 0 || at >= each) {
          bad += at != -1;
          continue;
        }
        ++picked;
        add_elements(w.view.dtype, w.row(table * each + at), sums.data(), sums.size());
      }
      const float scale = is_mean && picked > 1 ? 1.0f / static_cast<float>(picked) : 1.0f;
      for (size_t col = 0; col < sums.size(); ++col) {
        line[static_cast<size_t>(table * w.cols) + col] = sums[col] * scale;
      }
    }
    round_row(work, row, line.data());
  }
  if (work.bad_ids != nullptr) *work.bad_ids += bad;
}

void add_rows(const Work& work) { add_picked(work, false); }
void average_rows(const Work& work) { add_picked(work, true); }

// Bags are as long as they can be. A row that is picked twice comes from a cache.
TaskShares shares_of_look_ups(const KindOperands& of) {
  const auto rows = static_cast<double>(of.reads[1].rows());
  return {-std::expm1(static_cast<double>(of.reads[0].elements()) * std::log1p(-1 / rows)), 1};
}

constexpr TaskKind kind_of_look_ups(void (*compute)(const Work&), const RoutedKernel* kernel) {
  return {.worker = Worker::mover_kernel,
          .cost = {.rate = Rate::sums, .shares = shares_of_look_ups, .counts_as_product = true},
          .kernels = {.by = KernelKind::routed, .routed = kernel},
          .in_tile = TileRole::none,
          .num_others = 1,
          .columns = ColumnsOf::writes,
          .counts = {"each"},
          .reads_tables = 0b1,
          .reads_ids = 0b1,
          .fault = fault_in_look_ups,
          .compute = compute,
          .fault_in_result = fault_in_pools};
}

void describe(const RoutedFields& fields) {
  const std::span<const Region> reads = fields.of.reads;
  const int64_t each = fields.of.counts[0];
  fields.routed.entries = static_cast<uint32_t>(reads[1].rows() / each);
  fields.routed.table_rows = static_cast<uint32_t>(each);
  fields.routed.top_k = cols_of(reads[0]) / fields.routed.entries;
}

constexpr RoutedKernel kernel_of(device::RoutedKind kind) {
  return {.kind = kind, .source = 1, .moves = RoutedMoves::all_sources, .describe = describe};
}
constexpr RoutedKernel kAdded = kernel_of(device::RoutedKind::embed),
                       kAveraged = kernel_of(device::RoutedKind::embed_mean);

}  // namespace

const TaskKind embed = kind_of_look_ups(add_rows, &kAdded);
const TaskKind embed_mean = kind_of_look_ups(average_rows, &kAveraged);

}  // namespace stretto::tasks

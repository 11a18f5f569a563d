// permute per=P CHOICES X -> Y..: Y's rows are X's, picked by CHOICES: choice c takes row c / P of
// X. Rows without a choice are undefined.
#include <fmt/format.h>

#include <cstring>

#include "tasks/kinds.h"
#include "tasks/routed_kernel.h"
#include "tasks/tables.h"

namespace stretto::tasks {
namespace {

TaskFault fault_in_permute(std::span<const Region> reads) {
  if (reads.size() != 2) {
    return {"two regions: CHOICES and X", nullptr, fmt::format("{}", reads.size())};
  }
  if (reads[0].cols() != 1) return {"one column of choices", &reads[0]};
  return {};
}

void move_picked(const Work& work) {
  const Operand &choices = work.reads[0], &x = work.reads[1];
  const auto cols = static_cast<size_t>(work.cols);
  for (int64_t row = 0; row < work.rows; ++row) {
    const int32_t choice = number_in(choices, row);
    const int64_t from = choice / work.operands.counts[0];
    if (choice < 0 || from >= x.rows) {
      leave_undefined(work, row);
    } else if (x.view.dtype == work.to.dtype) {
      std::memcpy(work.row(row), x.row(from), cols * static_cast<size_t>(num_bytes(x.view.dtype)));
    } else {
      work.scratch.line.resize(cols);
      widen(x.view.dtype, x.row(from), work.scratch.line.data(), cols);
      round_elements(work.to.dtype, work.scratch.line.data(), work.row(row), cols);
    }
  }
}

// A row is read for each that is written.
TaskShares shares_of_permute(const KindOperands& of) {
  return {static_cast<double>(of.reads[0].rows()) / static_cast<double>(of.reads[1].rows()), 1};
}

void describe(const RoutedFields& fields) {
  fields.routed.top_k = static_cast<uint32_t>(fields.of.counts[0]);
  fields.routed.table_rows = rows_of(fields.of.reads[1]);
  fields.routed.own_experts = fields.rows_by_choice;
}

// As they lie.
bool passes(const KernelOperands& on) { return on.reads[1].dtype == on.writes[0].dtype; }

constexpr RoutedKernel kByTables{.kind = device::RoutedKind::permute,
                                 .source = 1,
                                 .moves = RoutedMoves::all_sources,
                                 .stores_by_choice = true,
                                 .describe = describe,
                                 .passes = passes};

}  // namespace

const TaskKind permute = {
    .worker = Worker::mover_kernel,
    .cost = {.rate = Rate::sums, .shares = shares_of_permute},
    .kernels = {.by = KernelKind::routed, .routed = &kByTables, .ahead_of_tiles = true},
    .in_tile = TileRole::none,
    .num_others = 1,
    .columns = ColumnsOf::last_read,
    .counts = {"per"},
    .reads_tables = 0b1,
    .fault = fault_in_permute,
    .compute = move_picked};

}  // namespace stretto::tasks

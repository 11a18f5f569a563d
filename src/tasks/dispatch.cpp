// dispatch experts=E X IDS -> Y: the rows of X that choose, in IDS [n, k], an expert of the rank
// that Y lies on. The others are undefined there, and not sent.
#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "tasks/kinds.h"
#include "tasks/routed_kernel.h"
#include "tasks/shapes.h"
#include "tasks/tables.h"

namespace stretto::tasks {
namespace {

TaskFault fault_in_dispatch(std::span<const Region> reads) {
  TaskFault fault = fault_in_number(reads, 2, "two regions, X and IDS");
  if (fault.expected.empty() && reads[0].rows() != reads[1].rows()) {
    return {fmt::format("ids of {} rows", reads[0].rows()), &reads[1]};
  }
  return fault;
}

TaskFault fault_in_place(const KindOperands& of) {
  if (of.writes.size() != 1) {
    return {"one written region", nullptr, fmt::format("{}", of.writes.size())};
  }
  return {};
}

void move_chosen(const Work& work) {
  const Operand &x = work.reads[0], &ids = work.reads[1];
  const int to = work.operands.writes[0].rank;
  const auto cols = static_cast<size_t>(work.cols);
  for (int64_t row = 0; row < work.rows; ++row) {
    if (!chooses(ids, row, work.operands.counts[0], work.operands.ranks, to)) {
      leave_undefined(work, row);
    } else if (x.view.dtype == work.to.dtype) {
      std::memcpy(work.row(row), x.row(row), cols * static_cast<size_t>(num_bytes(x.view.dtype)));
    } else {
      work.scratch.line.resize(cols);
      widen(x.view.dtype, x.row(row), work.scratch.line.data(), cols);
      round_elements(work.to.dtype, work.scratch.line.data(), work.row(row), cols);
    }
  }
}

TaskShares shares_of_dispatch(const KindOperands& of) {
  return {1, 1 - std::pow(1 - 1.0 / of.ranks, of.reads[1].cols())};
}

void describe(const RoutedFields& fields) {
  fields.routed.top_k = cols_of(fields.of.reads[1]);
  describe_own_experts(fields, fields.of.writes[0].rank);
}

constexpr RoutedKernel kByTables{
    .kind = device::RoutedKind::dispatch, .moves = RoutedMoves::one_source, .describe = describe};

}  // namespace

const TaskKind dispatch = {.worker = Worker::mover_kernel,
                           .cost = {.rate = Rate::sums, .shares = shares_of_dispatch},
                           .kernels = {.by = KernelKind::routed, .routed = &kByTables},
                           .in_tile = TileRole::none,
                           .counts = {"experts"},
                           .reads_tables = 0b10,
                           .reads_ids = 0b10,
                           .leaves = RowsLeft::chosen,
                           .fault = fault_in_dispatch,
                           .compute = move_chosen,
                           .fault_in_result = fault_in_place};

}  // namespace stretto::tasks

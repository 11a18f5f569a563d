// sum_counts parts=P COUNTS -> SUMS: how many choices each expert of the rank has in all P blocks
// of a partition. COUNTS are those that route, or the steps in its place, has written of one block
// after another: of each expert, and then of bad ids, which are left out.
#include <fmt/format.h>

#include "tasks/kinds.h"
#include "tasks/routed_kernel.h"
#include "tasks/shapes.h"
#include "tasks/tables.h"

namespace stretto::tasks {
namespace {

TaskFault fault_in_counts_of_blocks(std::span<const Region> reads) {
  TaskFault fault = fault_in_number(reads, 1, "one region, COUNTS");
  if (fault.expected.empty() && reads[0].cols() != 1) return {"one column of counts", &reads[0]};
  return fault;
}

TaskFault fault_in_sums(const KindOperands& of) {
  const int64_t parts = of.counts[0], rows = of.reads[0].rows();
  if (rows % parts != 0 || rows / parts < 2) {
    return {fmt::format("counts of experts, and one more, {} times", parts), &of.reads[0]};
  }
  if (of.writes.size() != 1) return {"one region, SUMS", nullptr, "several written regions"};
  if (of.writes[0].rows() == rows / parts - 1) return {};
  return {fmt::format("a sum for each of {} experts", rows / parts - 1), &of.writes[0]};
}

void add_up(const Work& work) {
  const Operand& counts = work.reads[0];
  const int64_t parts = work.operands.counts[0], step = counts.rows / parts;
  for (int64_t row = 0; row < work.rows; ++row) {
    int32_t sum = 0;
    for (int64_t part = 0; part < parts; ++part) {
      sum += number_in(counts, part * step + work.first + row);
    }
    *static_cast<int32_t*>(work.row(row)) = sum;
  }
}

void describe(const RoutedFields& fields) {
  fields.routed.parts = static_cast<uint32_t>(fields.of.counts[0]);
}

constexpr RoutedKernel kByTables{.kind = device::RoutedKind::sum_counts, .describe = describe};

}  // namespace

const TaskKind sum_counts = {
    .worker = Worker::mover_kernel,
    .cost = {.rate = Rate::sums},
    .kernels = {.by = KernelKind::routed, .routed = &kByTables, .ahead_of_tiles = true},
    .in_tile = TileRole::none,
    .num_others = 1,
    .rows_of_writes = true,
    .counts = {"parts"},
    .reads_tables = 0b1,
    .makes_tables = true,
    .fault = fault_in_counts_of_blocks,
    .compute = add_up,
    .fault_in_result = fault_in_sums};

}  // namespace stretto::tasks

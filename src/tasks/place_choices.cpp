// place_choices experts=E rows=R IDS PARTS OWN -> ROWS: which row of a partition with entries of R
// rows each of the choices IDS gets, counted from the partition's first; -1: it has none here.
// PARTS has a row for each part of the choices, as count_choices makes it, and OWN is that of IDS.
// The second of three steps that make a partition in parts.
#include <fmt/format.h>

#include <algorithm>

#include "tasks/kinds.h"
#include "tasks/partition_on_gpus.h"
#include "tasks/partition_parts.h"
#include "tasks/shapes.h"

namespace stretto::tasks {
namespace {

TaskFault fault_in_reads(std::span<const Region> reads) {
  if (TaskFault fault = fault_in_number(reads, 3, "three regions, IDS, PARTS and OWN");
      !fault.expected.empty()) {
    return fault;
  }
  const Region &parts = reads[1], &own = reads[2];
  const bool is_one = own.rows() == 1 && own.buffer == parts.buffer && own.rank == parts.rank &&
                      own.col0 == parts.col0 && own.col1 == parts.col1 && own.row0 >= parts.row0 &&
                      own.row1 <= parts.row1;
  if (!is_one) return {"OWN is one of the rows of PARTS", &own};
  return {};
}

TaskFault fault_in_rows(const KindOperands& of) {
  if (of.writes.size() != 1) return {"one region, ROWS", nullptr, "several written regions"};
  const Region &ids = of.reads[0], &rows = of.writes[0];
  if (rows.cols() != 1 || rows.rows() != ids.elements()) {
    return {fmt::format("a row for each of {} choices", ids.elements()), &rows};
  }
  return fault_in_counts(of, of.reads[1], of.reads[1].cols());
}

void place(const Work& work) {
  const std::span<const Region> reads = work.operands.reads;
  const int32_t own = reads[1].cols() - 1;
  std::vector<int32_t>& scratch = work.scratch.more_numbers;
  const auto words = static_cast<size_t>(device::partition_scratch(own, 1));
  const device::Choices<int32_t> choices = choices_of(work, work.reads[0], own);
  scratch.resize(words + static_cast<size_t>(choices.tokens));
  int32_t* const rows = scratch.data() + words;
  device::PartCounts parts = counts_of_parts(work.reads[1]);
  parts.part = reads[2].row0 - reads[1].row0;
  device::make_partition(choices,
                         device::Partition{static_cast<int32_t>(work.operands.counts[1]), 0,
                                           nullptr, nullptr, rows, nullptr, nullptr, parts},
                         scratch.data());
  // The rows of a result may be asked for one after the other.
  for (int64_t row = 0; row < work.rows; ++row) {
    *static_cast<int32_t*>(work.row(row)) = rows[work.first + row];
  }
}

void describe(const RoutedFields& fields) {
  const Region &parts = fields.of.reads[1], &own = fields.of.reads[2];
  describe_partition(fields, parts.cols());
  fields.routed.table_rows = static_cast<uint32_t>(fields.of.counts[1]);
  fields.routed.entries = 1;
  fields.routed.parts = rows_of(parts);
  fields.routed.part = static_cast<uint32_t>(own.row0 - parts.row0);
}

std::string why_not(const KernelOperands& on) {
  return why_no_partition(on.reads.first(1), on.writes, on.of.reads[1].cols());
}

constexpr RoutedKernel kByTables{
    .kind = device::RoutedKind::place_choices, .describe = describe, .why_not = why_not};

}  // namespace

const TaskKind place_choices = {
    .worker = Worker::mover_kernel,
    .cost = {.rate = Rate::sums},
    .kernels = {.by = KernelKind::routed, .routed = &kByTables, .ahead_of_tiles = true},
    .in_tile = TileRole::none,
    .num_others = 3,
    .columns = ColumnsOf::writes,
    .rows_of_writes = true,
    .counts = {"experts", "rows"},
    .reads_tables = 0b111,
    .reads_ids = 0b1,
    .makes_tables = true,
    .makes_partition = PartitionStep::places,
    .fault = fault_in_reads,
    .compute = place,
    .fault_in_result = fault_in_rows};

}  // namespace stretto::tasks

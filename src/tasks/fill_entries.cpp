// fill_entries experts=E first=F PARTS ROWS -> CHOICES EXPERTS [COUNTS]: of some entries of a
// partition, from number F on, the choices that have their rows, by ROWS, which place_choices made
// of all choices, and the experts that have the entries; COUNTS as that of route. The last of three
// steps that make a partition in parts.
#include <fmt/format.h>

#include "tasks/kinds.h"
#include "tasks/partition_on_gpus.h"
#include "tasks/partition_parts.h"
#include "tasks/shapes.h"

namespace stretto::tasks {
namespace {

TaskFault fault_in_reads(std::span<const Region> reads) {
  return fault_in_number(reads, 2, "two regions, PARTS and ROWS");
}

TaskFault fault_in_tables(const KindOperands& of) {
  if (of.writes.size() != 2 && of.writes.size() != 3) {
    return {"CHOICES, EXPERTS and maybe COUNTS", nullptr,
            fmt::format("{} written regions", of.writes.size())};
  }
  if (of.counts[0] < 1) return {"experts of at least 1", nullptr, "0"};
  const Region &parts = of.reads[0], &rows = of.reads[1];
  const Region &choices = of.writes[0], &entries = of.writes[1];
  if (rows.cols() != 1) return {"ROWS of one column", &rows};
  if (choices.rows() % entries.rows() != 0) {
    return {fmt::format("as many rows for each of {} entries", entries.rows()), &choices};
  }
  if (of.writes.size() == 3 && of.writes[2].rows() != parts.cols()) {
    return {fmt::format("COUNTS of {} numbers, as PARTS has", parts.cols()), &of.writes[2]};
  }
  return fault_in_counts(of, parts, parts.cols());
}

void fill(const Work& work) {
  const std::span<const Region> to = work.operands.writes;
  const Operand &parts = work.reads[0], &rows = work.reads[1];
  const int32_t own = work.operands.reads[0].cols() - 1;
  const int32_t first_counts = to[0].rows() + to[1].rows();
  std::vector<int32_t>&all = work.scratch.numbers, &scratch = work.scratch.more_numbers;
  all.resize(static_cast<size_t>(first_counts + own + 1));
  const auto words = static_cast<size_t>(device::partition_scratch(own, 1));
  scratch.resize(words + static_cast<size_t>(rows.rows));
  int32_t* const row_of_choice = scratch.data() + words;
  for (int64_t row = 0; row < rows.rows; ++row) {
    row_of_choice[row] = *static_cast<const int32_t*>(rows.row(row));
  }
  int32_t* const counts = all.data() + first_counts;
  device::fill_entries(
      {counts_of_parts(parts), own, row_of_choice, static_cast<int32_t>(rows.rows)},
      static_cast<int32_t>(work.operands.counts[1]),
      device::Partition{to[0].rows() / to[1].rows(), to[1].rows(), all.data(),
                        all.data() + to[0].rows(), nullptr, counts, counts + own},
      scratch.data());
  for (int64_t row = 0; row < work.rows; ++row) {
    *static_cast<int32_t*>(work.row(row)) = all[static_cast<size_t>(work.first + row)];
  }
}

void describe(const RoutedFields& fields) {
  const Region &parts = fields.of.reads[0], &rows = fields.of.reads[1];
  describe_partition(fields, parts.cols());
  describe_entries(fields);
  fields.task.rows = rows_of(rows);
  fields.routed.parts = rows_of(parts);
  fields.routed.part = static_cast<uint32_t>(fields.of.counts[1]);
}

// It reads no ids.
std::string why_not(const KernelOperands& on) {
  return why_no_partition({}, on.writes, on.of.reads[0].cols());
}

constexpr RoutedKernel kByTables{
    .kind = device::RoutedKind::fill_entries, .describe = describe, .why_not = why_not};

}  // namespace

const TaskKind fill_entries = {
    .worker = Worker::mover_kernel,
    .cost = {.rate = Rate::sums},
    .kernels = {.by = KernelKind::routed, .routed = &kByTables, .ahead_of_tiles = true},
    .in_tile = TileRole::none,
    .num_others = 2,
    .columns = ColumnsOf::writes,
    .rows_of_writes = true,
    .counts = {"experts", "first"},
    .least_count = 0,
    .reads_tables = 0b11,
    .makes_tables = true,
    .makes_partition = PartitionStep::entries,
    .fault = fault_in_reads,
    .compute = fill,
    .fault_in_result = fault_in_tables};

}  // namespace stretto::tasks

// count_choices experts=E IDS -> COUNTS: how many of the choices IDS are of each expert of the
// rank, and then how many are no expert's and not -1, side by side. The first of three steps that
// make a partition in parts; device/make_partition.h has all three.
#include "tasks/kinds.h"
#include "tasks/partition_on_gpus.h"
#include "tasks/partition_parts.h"
#include "tasks/shapes.h"

namespace stretto::tasks {
namespace {

TaskFault fault_in_reads(std::span<const Region> reads) {
  return fault_in_number(reads, 1, "one region, IDS");
}

TaskFault fault_in_row(const KindOperands& of) {
  if (of.writes.size() != 1) return {"one region, COUNTS", nullptr, "several written regions"};
  const Region& counts = of.writes[0];
  if (counts.rows() != 1) return {"one row of counts", &counts};
  return fault_in_counts(of, counts, counts.cols());
}

void count(const Work& work) {
  const auto own = static_cast<int32_t>(work.cols - 1);
  std::vector<int32_t>& scratch = work.scratch.more_numbers;
  scratch.resize(static_cast<size_t>(device::partition_scratch(own, 1)));
  auto* const counts = static_cast<int32_t*>(work.row(0));
  device::make_partition(choices_of(work, work.reads[0], own),
                         device::Partition{1, 0, nullptr, nullptr, nullptr, counts, counts + own},
                         scratch.data());
  if (work.bad_ids != nullptr) *work.bad_ids += counts[own];
}

void describe(const RoutedFields& fields) {
  describe_partition(fields, fields.of.writes[0].cols());
  fields.routed.table_rows = fields.routed.entries = 1;
}

// COUNTS is a row, so it may lie anywhere.
std::string why_not(const KernelOperands& on) {
  return why_no_partition(on.reads, {}, on.of.writes[0].cols());
}

constexpr RoutedKernel kByTables{
    .kind = device::RoutedKind::count_choices, .describe = describe, .why_not = why_not};

}  // namespace

const TaskKind count_choices = {
    .worker = Worker::mover_kernel,
    .cost = {.rate = Rate::sums},
    .kernels = {.by = KernelKind::routed, .routed = &kByTables, .ahead_of_tiles = true},
    .in_tile = TileRole::none,
    .num_others = 1,
    .columns = ColumnsOf::writes,
    .rows_of_writes = true,
    .counts = {"experts"},
    .reads_tables = 0b1,
    .reads_ids = 0b1,
    .makes_tables = true,
    .makes_partition = PartitionStep::counts,
    .fault = fault_in_reads,
    .compute = count,
    .fault_in_result = fault_in_row};

}  // namespace stretto::tasks

// route experts=E IDS -> CHOICES EXPERTS ROWS COUNTS: the partition by expert of the choices IDS,
// as device/make_partition.h makes it. All are columns of whole numbers, one below the other:
//   CHOICES  by row of the partition: the choice, counted from the region's first; -1: none
//   EXPERTS  by entry: its expert, counted from the rank's first; -1: the entry is empty
//   ROWS     by choice: its row, counted from the first of CHOICES; -1: it has none here
//   COUNTS   by expert of the rank: its choices; then how many ids are no expert's and not -1
#include <fmt/format.h>

#include <algorithm>

#include "tasks/kinds.h"
#include "tasks/partition_on_gpus.h"
#include "tasks/partition_parts.h"
#include "tasks/shapes.h"

namespace stretto::tasks {
namespace {

TaskFault fault_in_route(std::span<const Region> reads) {
  return fault_in_number(reads, 1, "one region, IDS");
}

TaskFault fault_in_tables(const KindOperands& of) {
  if (of.writes.size() != 4) {
    return {"CHOICES, EXPERTS, ROWS and COUNTS", nullptr,
            fmt::format("{} written regions", of.writes.size())};
  }
  const Region &ids = of.reads[0], &choices = of.writes[0], &entries = of.writes[1],
               &rows = of.writes[2], &counts = of.writes[3];
  if (choices.rows() % entries.rows() != 0) {
    return {fmt::format("as many rows for each of {} entries", entries.rows()), &choices};
  }
  if (rows.rows() != ids.elements()) {
    return {fmt::format("a row for each of {} choices", ids.elements()), &rows};
  }
  if (TaskFault fault = fault_in_counts(of, counts, counts.rows()); !fault.expected.empty()) {
    return fault;
  }
  const int32_t own = counts.rows() - 1;
  const int32_t most = device::most_entries(ids.elements(), own, choices.rows() / entries.rows());
  if (entries.rows() < most) return {fmt::format("at least {} entries", most), &entries};
  return {};
}

void make_tables(const Work& work) {
  const std::span<const Region> to = work.operands.writes;
  const int32_t own = to[3].rows() - 1;
  const device::Choices<int32_t> of = choices_of(work, work.reads[0], own);
  const auto choices = static_cast<size_t>(of.tokens);
  const auto entries = static_cast<size_t>(to[0].rows()), rows = entries + to[1].rows();
  const size_t counts = rows + choices;
  std::vector<int32_t>& all = work.scratch.more_numbers;
  all.resize(counts + static_cast<size_t>(own) + 1 +
             static_cast<size_t>(device::partition_scratch(own, 1)));
  device::make_partition(
      of,
      device::Partition{to[0].rows() / to[1].rows(), to[1].rows(), all.data(), all.data() + entries,
                        all.data() + rows, all.data() + counts, all.data() + counts + own},
      all.data() + counts + own + 1);
  // The rows of a result may be asked for one after the other.
  if (work.bad_ids != nullptr && work.first == 0) {
    *work.bad_ids += all[counts + static_cast<size_t>(own)];
  }
  for (int64_t row = 0; row < work.rows; ++row) {
    *static_cast<int32_t*>(work.row(row)) = all[static_cast<size_t>(work.first + row)];
  }
}

// A block that makes a partition takes this long for each of its experts, and for each choice
// beyond those that its warps have at once, whatever it moves (one H100, docs/notes/moe.md: 17 us
// of 1024 choices of 128 experts, 36 of 256; of 8192 and of 65536 choices of 128 experts 20 and
// 144).
constexpr double kExpertUs = 0.12, kChoiceUs = 0.002, kChoicesAtOnce = 4096;
// A kernel of partitions takes so long for its looks at tables and ids, and for each choice of one
// of its blocks (one H200, clocks in the kernel: 5.8 us of 1000 choices by one block, 4.3 to 5.9 of
// 8192 and 17.7 of 65536 by eight).
constexpr double kKernelUs = 4.2, kChoiceOfBlockUs = 0.0016;

double start_us(const KindOperands& of, int blocks) {
  const auto choices = static_cast<double>(of.reads[0].elements());
  if (blocks != 0) return kKernelUs + kChoiceOfBlockUs * choices / blocks;
  const double experts = of.writes[3].rows() - 1.0;
  return kExpertUs * experts + kChoiceUs * std::max(0.0, choices - kChoicesAtOnce);
}

void describe(const RoutedFields& fields) {
  describe_partition(fields, fields.of.writes[3].rows());
  describe_entries(fields);
}

std::string why_not(const KernelOperands& on) {
  return why_no_partition(on.reads, on.writes, on.of.writes[3].rows());
}

constexpr RoutedKernel kByTables{
    .kind = device::RoutedKind::route, .describe = describe, .why_not = why_not};

}  // namespace

const TaskKind route = {
    .worker = Worker::mover_kernel,
    .cost = {.rate = Rate::sums, .start_us = start_us},
    .kernels = {.by = KernelKind::routed, .routed = &kByTables, .ahead_of_tiles = true},
    .in_tile = TileRole::none,
    .num_others = 1,
    .columns = ColumnsOf::writes,
    .rows_of_writes = true,
    .counts = {"experts"},
    .reads_tables = 0b1,
    .reads_ids = 0b1,
    .makes_tables = true,
    .makes_partition = PartitionStep::whole,
    .fault = fault_in_route,
    .compute = make_tables,
    .fault_in_result = fault_in_tables};

}  // namespace stretto::tasks

// route experts=E IDS -> CHOICES EXPERTS ROWS COUNTS: the partition by expert of the choices IDS,
// as device/routing.h makes it. All are columns of whole numbers, one below the other:
//   CHOICES  by row of the partition: the choice, counted from the region's first; -1: none
//   EXPERTS  by entry: its expert, counted from the rank's first; -1: the entry is empty
//   ROWS     by choice: its row, counted from the first of CHOICES; -1: it has none here
//   COUNTS   by expert of the rank: its choices; then how many ids are no expert's and not -1
#include <fmt/format.h>

#include <algorithm>

#include "stretto/device/routing.h"
#include "tasks/kinds.h"
#include "tasks/shapes.h"
#include "tasks/tables.h"

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
  const int64_t own = counts.rows() - 1;
  const device::ExpertShares shares{static_cast<int32_t>(of.counts[0]), of.ranks};
  const int32_t of_rank = shares.size(counts.rank);
  if (own < 1 || (own != of.counts[0] && own != of_rank)) {
    return {fmt::format("a count for each expert, all {} or the rank's {}, and one more",
                        of.counts[0], of_rank),
            &counts};
  }
  const int32_t most = device::most_entries(ids.elements(), static_cast<int32_t>(own),
                                            choices.rows() / entries.rows());
  if (entries.rows() < most) return {fmt::format("at least {} entries", most), &entries};
  return {};
}

void make_tables(const Work& work) {
  const Operand& ids = work.reads[0];
  const std::span<const Region> to = work.operands.writes;
  const auto experts = static_cast<int32_t>(work.operands.counts[0]);
  const device::ExpertShares shares{experts, work.operands.ranks};
  const int32_t own = to[3].rows() - 1, choices = to[2].rows();
  std::vector<int32_t>& all = work.scratch.numbers;
  std::vector<int32_t>& more = work.scratch.more_numbers;
  all.resize(static_cast<size_t>(to[0].rows() + to[1].rows() + choices + own + 1));
  const int64_t scratch = device::partition_scratch(own, 1);
  more.resize(static_cast<size_t>(scratch) + static_cast<size_t>(choices));
  int32_t* const compact = more.data() + scratch;
  for (int64_t row = 0; row < ids.rows; ++row) {
    for (int64_t slot = 0; slot < ids.cols; ++slot) {
      compact[row * ids.cols + slot] = number_in(ids, row, slot);
    }
  }
  int32_t* const entries = all.data() + to[0].rows();
  int32_t* const rows = entries + to[1].rows();
  int32_t* const counts = rows + choices;
  device::make_partition(
      device::Choices<int32_t>{compact, choices, 1, experts,
                               own == experts ? 0 : shares.begin(work.rank), own},
      device::Partition{to[0].rows() / to[1].rows(), to[1].rows(), all.data(), entries, rows,
                        counts, counts + own},
      more.data(), 0, 1, [] {});
  // The rows of a result may be asked for one after the other.
  if (work.bad_ids != nullptr && work.first == 0) *work.bad_ids += counts[own];
  for (int64_t row = 0; row < work.rows; ++row) {
    *static_cast<int32_t*>(work.row(row)) = all[static_cast<size_t>(work.first + row)];
  }
}

}  // namespace

const TaskKind route = {.worker = Worker::mover_kernel,
                        .num_others = 1,
                        .columns = ColumnsOf::writes,
                        .rows_of_writes = true,
                        .counts = {"experts"},
                        .reads_tables = 0b1,
                        .reads_ids = 0b1,
                        .makes_tables = true,
                        .fault = fault_in_route,
                        .compute = make_tables,
                        .fault_in_result = fault_in_tables};

}  // namespace stretto::tasks

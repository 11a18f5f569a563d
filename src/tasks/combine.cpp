// combine experts=E WEIGHTS ROWS Y -> S..: as weigh, by a rank that has a share of the experts, for
// who has the token. Undefined, and not sent, where the token has no row here. With IDS [n, k], k >
// 1, in the place of ROWS, Y has a row for each choice, i * k + j that of token i's slot j, and
// those are here whose expert is the rank's.
#include <fmt/format.h>

#include <cmath>

#include "tasks/kinds.h"
#include "tasks/tables.h"
#include "tasks/weighted_sums.h"

namespace stretto::tasks {
namespace {

bool has_ids(std::span<const Region> reads) { return reads[1].cols() > 1; }

TaskFault fault_in_combine(std::span<const Region> reads) {
  if (reads.size() != 3 || !has_ids(reads)) return fault_in_sums(reads);
  if (reads[1].rows() != reads[0].rows() || reads[1].cols() != reads[0].cols()) {
    return {"an id for each weight", &reads[1]};
  }
  if (reads[2].rows() == reads[0].elements()) return {};
  return {fmt::format("a row for each of {} choices", reads[0].elements()), &reads[2]};
}

int64_t row_by_ids(const Work& work, int64_t token, int64_t slot) {
  const int64_t top_k = work.reads[0].cols, id = number_in(work.reads[1], token, slot);
  const device::ExpertShares shares{static_cast<int32_t>(work.operands.counts[0]),
                                    work.operands.ranks};
  const bool is_here = id >= shares.begin(work.rank) && id < shares.begin(work.rank + 1);
  return is_here ? token * top_k + slot : -1;
}

void weigh_own(const Work& work) {
  weigh_rows(work, true, has_ids(work.operands.reads) ? row_by_ids : row_by_table);
}

// A share of a token's choices is this rank's, and of the tokens those with at least one of them.
TaskShares shares_of_combine(const KindOperands& of) {
  TaskShares shares = shares_of_sums(of);
  shares.read /= of.ranks;
  shares.written = 1 - std::pow(1 - 1.0 / of.ranks, of.reads[0].cols());
  return shares;
}

constexpr RoutedKernel kByTables{.kind = device::RoutedKind::combine,
                                 .source = 2,
                                 .moves = RoutedMoves::all_sources,
                                 .describe = describe_sums,
                                 .why_not = why_no_sums,
                                 .passes = pass_sums};

}  // namespace

const TaskKind combine = {.worker = Worker::mover_kernel,
                          .cost = {.rate = Rate::sums, .shares = shares_of_combine},
                          .kernels = {.by = KernelKind::routed, .routed = &kByTables},
                          .in_tile = TileRole::none,
                          .num_others = 2,
                          .columns = ColumnsOf::last_read,
                          .counts = {"experts"},
                          .reads_tables = 0b10,
                          .reads_ids = 0b10,
                          .leaves = RowsLeft::terms,
                          .fault = fault_in_combine,
                          .compute = weigh_own};

}  // namespace stretto::tasks

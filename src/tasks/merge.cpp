// merge experts=E IDS S.. -> Y..: Y = the sum of the S, one of each rank in rank order, that come
// from ranks with an expert which the row chooses in IDS [n, k]; in fp32, rounded once.
#include <fmt/format.h>

#include "tasks/kinds.h"
#include "tasks/routed_kernel.h"
#include "tasks/shapes.h"
#include "tasks/tables.h"

namespace stretto::tasks {
namespace {

TaskFault fault_in_merge(std::span<const Region> reads) {
  if (reads.size() < 2) {
    return {"IDS, then a region of each rank", nullptr, fmt::format("{}", reads.size())};
  }
  if (reads[0].rows() != reads[1].rows()) {
    return {fmt::format("ids of {} rows", reads[1].rows()), &reads[0]};
  }
  return fault_in_shapes(reads.subspan(1));
}

TaskFault fault_in_ranks(const KindOperands& of) {
  if (of.reads.size() != static_cast<size_t>(of.ranks) + 1) {
    return {fmt::format("IDS and a region of each of {} ranks", of.ranks), nullptr,
            fmt::format("{}", of.reads.size())};
  }
  return {};
}

void add_chosen(const Work& work) {
  std::vector<float>& sums = work.scratch.sums;
  for (int64_t row = 0; row < work.rows; ++row) {
    sums.assign(static_cast<size_t>(work.cols), 0.0f);
    for (int rank = 0; rank < work.operands.ranks; ++rank) {
      if (!chooses(work.reads[0], row, work.operands.counts[0], work.operands.ranks, rank)) {
        continue;
      }
      const Operand& from = work.reads[static_cast<size_t>(rank) + 1];
      add_elements(from.view.dtype, from.row(row), sums.data(), sums.size());
    }
    round_elements(work.to.dtype, sums.data(), work.row(row), sums.size());
  }
}

void describe(const RoutedFields& fields) { fields.routed.top_k = cols_of(fields.of.reads[0]); }

bool passes(const KernelOperands& on) {
  return on.of.reads.size() <= static_cast<size_t>(kTermsOfPass);
}

constexpr RoutedKernel kByTables{.kind = device::RoutedKind::merge,
                                 .source = 1,
                                 .moves = RoutedMoves::all_sources,
                                 .describe = describe,
                                 .passes = passes};

}  // namespace

const TaskKind merge = {.worker = Worker::mover_kernel,
                        .cost = {.rate = Rate::sums},
                        .kernels = {.by = KernelKind::routed, .routed = &kByTables},
                        .in_tile = TileRole::none,
                        .columns = ColumnsOf::last_read,
                        .counts = {"experts"},
                        .reads_tables = 0b1,
                        .reads_ids = 0b1,
                        .adds_terms = true,
                        .fault = fault_in_merge,
                        .compute = add_chosen,
                        .fault_in_result = fault_in_ranks};

}  // namespace stretto::tasks

// slice_ids experts=E slices=S IDS -> NUMBERS: of each choice S, one behind the other: those of the
// expert's slices in a stack that has slice 0 of all E experts, then slice 1 of all, and so on.
// What is no expert's is none of any slice, and bad once. slice_weights slices=S W -> WEIGHTS: each
// choice's weight S times, since what its slices make is added up.
#include <fmt/format.h>

#include <limits>

#include "stretto/device/routing.h"
#include "tasks/kinds.h"
#include "tasks/routed_kernel.h"
#include "tasks/rows.h"
#include "tasks/shapes.h"
#include "tasks/tables.h"

namespace stretto::tasks {
namespace {

TaskFault fault_in_ids(std::span<const Region> reads) {
  return fault_in_number(reads, 1, "one region, IDS");
}
TaskFault fault_in_choices_weights(std::span<const Region> reads) {
  return fault_in_number(reads, 1, "one region, W");
}

TaskFault fault_in_columns(const KindOperands& of, int64_t slices) {
  const int64_t cols = of.reads[0].cols() * slices;
  if (of.writes[0].cols() == cols) return {};
  return {fmt::format("{} columns, {} of each choice", cols, slices), &of.writes[0]};
}
TaskFault fault_in_numbers(const KindOperands& of) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  if (of.counts[0] > kMost / of.counts[1]) {
    return {fmt::format("at most {} slices in all", kMost), nullptr,
            fmt::format("{} of each of {} experts", of.counts[1], of.counts[0])};
  }
  return fault_in_columns(of, of.counts[1]);
}
TaskFault fault_in_weights(const KindOperands& of) { return fault_in_columns(of, of.counts[0]); }

void number_slices(const Work& work) {
  const auto experts = static_cast<int32_t>(work.operands.counts[0]);
  const auto slices = static_cast<int32_t>(work.operands.counts[1]);
  for (int64_t row = 0; row < work.rows; ++row) {
    auto* to = static_cast<int32_t*>(work.row(row));
    for (int64_t slot = 0; slot < work.reads[0].cols; ++slot) {
      const int32_t id = number_in(work.reads[0], row, slot);
      for (int32_t slice = 0; slice < slices; ++slice) {
        *to++ = device::number_of_slice(id, experts, slice);
      }
    }
  }
}

void repeat_weights(const Work& work) {
  const int64_t slices = work.operands.counts[0];
  std::vector<float>& all = work.scratch.line;
  all.resize(static_cast<size_t>(work.cols));
  for (int64_t row = 0; row < work.rows; ++row) {
    const float* const weights = wide_row(work.reads[0], row, work.scratch.sums);
    for (int64_t i = 0; i < work.cols; ++i) all[static_cast<size_t>(i)] = weights[i / slices];
    round_row(work, row, all.data());
  }
}

void describe_ids(const RoutedFields& fields) {
  fields.routed.top_k = cols_of(fields.of.writes[0]);
  fields.routed.own_experts = static_cast<uint32_t>(fields.of.counts[1]);
}
void describe_weights(const RoutedFields& fields) {
  fields.routed.top_k = cols_of(fields.of.writes[0]);
  fields.routed.own_experts = static_cast<uint32_t>(fields.of.counts[0]);
}

constexpr RoutedKernel kIds{.kind = device::RoutedKind::slice_ids, .describe = describe_ids},
    kWeights{.kind = device::RoutedKind::slice_weights, .describe = describe_weights};

}  // namespace

const TaskKind slice_ids = {.worker = Worker::mover_kernel,
                            .cost = {.rate = Rate::sums},
                            .kernels = {.by = KernelKind::routed, .routed = &kIds},
                            .in_tile = TileRole::none,
                            .columns = ColumnsOf::writes,
                            .counts = {"experts", "slices"},
                            .reads_tables = 0b1,
                            .reads_ids = 0b1,
                            .makes_tables = true,
                            .fault = fault_in_ids,
                            .compute = number_slices,
                            .fault_in_result = fault_in_numbers};

const TaskKind slice_weights = {.worker = Worker::mover_kernel,
                                .cost = {.rate = Rate::sums},
                                .kernels = {.by = KernelKind::routed, .routed = &kWeights},
                                .in_tile = TileRole::none,
                                .columns = ColumnsOf::writes,
                                .counts = {"slices"},
                                .fault = fault_in_choices_weights,
                                .compute = repeat_weights,
                                .fault_in_result = fault_in_weights};

}  // namespace stretto::tasks

// top_k groups=G best=N S -> IDS: the experts that each row of scores is highest for, in their
// order, as device/top_k.h says. biased_top_k S B -> IDS goes by the sigmoids of S, plus the row B.
// Of G groups of experts, side by side, the N best are left to choose from.
#include "stretto/device/top_k.h"

#include <fmt/format.h>

#include "tasks/kinds.h"
#include "tasks/routed_kernel.h"
#include "tasks/rows.h"
#include "tasks/shapes.h"

namespace stretto::tasks {
namespace {

TaskFault fault_in_scores(std::span<const Region> reads) {
  return fault_in_number(reads, 1, "one region, S");
}

TaskFault fault_in_biased(std::span<const Region> reads) {
  TaskFault fault = fault_in_number(reads, 2, "two regions, S and B");
  return fault.expected.empty() ? fault_in_shared_row(reads) : fault;
}

TaskFault fault_in_choices(const KindOperands& of) {
  const int64_t experts = of.reads[0].cols(), groups = of.counts[0], best = of.counts[1];
  if (experts % groups != 0) {
    return {fmt::format("as many columns in each of {} groups", groups), &of.reads[0]};
  }
  if (groups > device::kMostExpertGroups) {
    return {fmt::format("at most {} groups", device::kMostExpertGroups), nullptr,
            fmt::format("{}", groups)};
  }
  if (best > groups) {
    return {fmt::format("best of at most {} groups", groups), nullptr, fmt::format("{}", best)};
  }
  const int64_t left = experts / groups * best;
  if (of.writes[0].cols() > left) {
    return {fmt::format("at most {} columns, which are left to choose", left), &of.writes[0]};
  }
  return {};
}

void choose(const Work& work, bool is_biased) {
  const device::TopKRules rules{static_cast<int32_t>(work.reads[0].cols),
                                static_cast<int32_t>(work.cols),
                                static_cast<int32_t>(work.operands.counts[0]),
                                static_cast<int32_t>(work.operands.counts[1]), is_biased};
  const float* const bias = is_biased ? wide_row(work.reads[1], 0, work.scratch.line) : nullptr;
  for (int64_t row = 0; row < work.rows; ++row) {
    const float* const scores = wide_row(work.reads[0], row, work.scratch.sums);
    auto* const ids = static_cast<int32_t*>(work.row(row));
    device::choose_experts<0>(
        device::OneLane{}, rules, [&](int32_t expert) { return scores[expert]; },
        [&](int32_t expert) { return bias[expert]; },
        [&](int32_t slot, int32_t expert) { ids[slot] = expert; });
  }
}

void choose_by_scores(const Work& work) { choose(work, false); }
void choose_by_sigmoids(const Work& work) { choose(work, true); }

void describe(const RoutedFields& fields) {
  fields.routed.experts = cols_of(fields.of.reads[0]);
  fields.routed.top_k = cols_of(fields.of.writes[0]);
  fields.routed.entries = static_cast<uint32_t>(fields.of.counts[0]);
  fields.routed.own_experts = static_cast<uint32_t>(fields.of.counts[1]);
  fields.routed.weights = fields.types.back();
}

constexpr RoutedKernel kPlain{.kind = device::RoutedKind::top_k, .describe = describe},
    kBiased{.kind = device::RoutedKind::biased_top_k, .describe = describe};

constexpr TaskKind kind_of_top_k(bool is_biased) {
  return {.worker = Worker::mover_kernel,
          .cost = {.rate = Rate::sums},
          .kernels = {.by = KernelKind::routed, .routed = is_biased ? &kBiased : &kPlain},
          .in_tile = TileRole::none,
          .num_others = static_cast<uint16_t>(is_biased ? 1 : 0),
          .columns = ColumnsOf::writes,
          .counts = {"groups", "best"},
          .makes_tables = true,
          .fault = is_biased ? fault_in_biased : fault_in_scores,
          .compute = is_biased ? choose_by_sigmoids : choose_by_scores,
          .fault_in_result = fault_in_choices};
}

}  // namespace

const TaskKind top_k = kind_of_top_k(false);
const TaskKind biased_top_k = kind_of_top_k(true);

}  // namespace stretto::tasks

// softmax_gate scale=X normalise=0|1 S IDS -> WEIGHTS: what the results of the experts IDS count,
// by their row of scores, as device/gate.h says. normalise=1: they add up to X. Else they are of
// the softmax over all experts, times X; sigmoid_gate: sigmoids, times X. 0 of what is no expert's.
#include "stretto/device/gate.h"

#include <fmt/format.h>

#include "tasks/kinds.h"
#include "tasks/routed_kernel.h"
#include "tasks/rows.h"
#include "tasks/shapes.h"
#include "tasks/tables.h"

namespace stretto::tasks {
namespace {

TaskFault fault_in_gate(std::span<const Region> reads) {
  TaskFault fault = fault_in_number(reads, 2, "two regions, S and IDS");
  if (fault.expected.empty() && reads[0].rows() != reads[1].rows()) {
    return {fmt::format("ids of {} rows", reads[0].rows()), &reads[1]};
  }
  return fault;
}

TaskFault fault_in_weights(const KindOperands& of) {
  if (of.counts[0] <= 1) return {};
  return {"normalise of 0 or 1", nullptr, fmt::format("{}", of.counts[0])};
}

void weigh_rows(const Work& work, bool is_softmax) {
  const Operand &scores_of = work.reads[0], &ids = work.reads[1];
  const device::GateRules rules{static_cast<int32_t>(scores_of.cols),
                                static_cast<int32_t>(ids.cols), is_softmax,
                                work.operands.counts[0] != 0, work.attribute};
  std::vector<float>& weights = work.scratch.line;
  weights.resize(static_cast<size_t>(ids.cols));
  for (int64_t row = 0; row < work.rows; ++row) {
    const float* const scores = wide_row(scores_of, row, work.scratch.sums);
    device::weigh_experts<0>(
        device::OneLane{}, rules, [&](int32_t expert) { return scores[expert]; },
        [&](int32_t slot) { return number_in(ids, row, slot); },
        [&](int32_t slot, float weight) { weights[static_cast<size_t>(slot)] = weight; });
    round_row(work, row, weights.data());
  }
}

void weigh_by_softmax(const Work& work) { weigh_rows(work, true); }
void weigh_by_sigmoid(const Work& work) { weigh_rows(work, false); }

constexpr TaskKind kind_of_gate(void (*compute)(const Work&), const RoutedKernel* kernel) {
  return {.worker = Worker::mover_kernel,
          .cost = {.rate = Rate::sums},
          .kernels = {.by = KernelKind::routed, .routed = kernel},
          .in_tile = TileRole::none,
          .columns = ColumnsOf::last_read,
          .attribute = "scale",
          .counts = {"normalise"},
          .least_count = 0,
          .reads_tables = 0b10,
          .reads_ids = 0b10,
          .fault = fault_in_gate,
          .compute = compute,
          .fault_in_result = fault_in_weights};
}

void describe(const RoutedFields& fields) {
  fields.routed.experts = cols_of(fields.of.reads[0]);
  fields.routed.top_k = cols_of(fields.of.writes[0]);
  fields.routed.own_experts = static_cast<uint32_t>(fields.of.counts[0]);
  fields.task.epsilon = fields.attribute;
}

constexpr RoutedKernel kSoftmax{.kind = device::RoutedKind::softmax_gate, .describe = describe},
    kSigmoid{.kind = device::RoutedKind::sigmoid_gate, .describe = describe};

}  // namespace

const TaskKind softmax_gate = kind_of_gate(weigh_by_softmax, &kSoftmax);
const TaskKind sigmoid_gate = kind_of_gate(weigh_by_sigmoid, &kSigmoid);

}  // namespace stretto::tasks

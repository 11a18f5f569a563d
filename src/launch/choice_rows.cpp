#include "launch/choice_rows.h"

#include <algorithm>

#include "stretto/call.h"

namespace stretto::cuda {

int64_t rows_in_memory(const Plan& plan, const Buffer& buffer) {
  if (!is_by_choice(buffer)) return buffer.rows;
  for (const OperatorOutput& output : plan.op.outputs) {
    const Tensor& tensor = plan.op.tensor(output.tensor);
    if (tensor.name == buffer.name) return tensor.rows;
  }
  return 0;  // no output of the operator's: nobody has memory for it
}

ChoiceRows::ChoiceRows(const Plan& plan) : plan_(plan), routes_(static_cast<size_t>(plan.ranks())) {
  for (const Lane& lane : plan.lanes) {
    for (const Instr& instr : lane.instrs) {
      if (instr.op == Opcode::route) routes_[static_cast<size_t>(lane.rank)].push_back(&instr);
    }
  }
}

std::optional<ChoiceTables> ChoiceRows::of(const Instr& product, const Region& stored) const {
  const auto within = [](const Region& part, const Region& all) {
    return part.buffer == all.buffer && part.rank == all.rank && part.row0 >= all.row0 &&
           part.row1 <= all.row1;
  };
  const std::span<const Region> reads = plan_.reads(product);
  const Region& experts = reads[1];
  const int32_t entry_rows = stored.rows() / std::max(experts.rows(), 1);
  for (const Instr* const route : routes_[static_cast<size_t>(stored.rank)]) {
    const std::span<const Region> tables = plan_.writes(*route);
    ChoiceTables found{tables[0], &tables[2]};
    found.choices.row0 = stored.row0;
    found.choices.row1 = stored.row1;
    const bool is_own = product.op != Opcode::gather_gemm ||
                        (reads[0].buffer == tables[0].buffer && reads[0].row0 == stored.row0);
    const Buffer& of_choices = plan_.buffers[tables[0].buffer];
    if (!within(experts, tables[1]) || !within(found.choices, tables[0]) || !is_own ||
        of_choices.partition != plan_.buffers[stored.buffer].partition) {
      continue;
    }
    const int32_t entry = experts.row0 - tables[1].row0;
    if (stored.row0 - tables[0].row0 != int64_t{entry} * entry_rows) continue;
    if (tables[2].row1 > rows_in_memory(plan_, plan_.buffers[stored.buffer])) continue;
    return found;
  }
  return std::nullopt;
}

}  // namespace stretto::cuda

#include "op/stage_rules.h"

#include "op/stage_faults.h"
#include "op/stages/stage_row.h"

namespace stretto {

bool is_parameter(StageKind kind, size_t operand) {
  return operand == 1 && row_of(kind).has_parameter;
}

StageRule rule_of(const Stage& stage, std::span<const Tensor* const> in, int ranks, DType dtype) {
  StageRule rule = row_of(stage.kind).rule({stage, in, ranks, dtype});
  if (!goes_by_rows(stage.kind)) return rule;
  for (const Tensor* const one : in) {
    if (std::string fault = fault_in_type(stage.kind, *one, dtype); !fault.empty()) {
      rule.fault = std::move(fault);
    }
  }
  return rule;
}

}  // namespace stretto

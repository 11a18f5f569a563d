// Rules of stages whose rows are chosen by ids: products of experts, what permutes, counts and
// weighs choices, and look-ups.
#pragma once

#include "op/stage_rules.h"

namespace stretto {

bool is_routed_stage(StageKind kind);
StageRule routed_rule(const Stage& stage, std::span<const Tensor* const> in, int ranks,
                      DType dtype);

}  // namespace stretto

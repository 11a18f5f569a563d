// Rules of stages that make ids and weights: of scores, and of slices of what was chosen.
#pragma once

#include "op/stage_rules.h"

namespace stretto {

bool is_router_stage(StageKind kind);
StageRule router_rule(const Stage& stage, std::span<const Tensor* const> in, DType dtype);

}  // namespace stretto

// Rules of stages whose rows are chosen by ids: products of experts, what permutes, counts and
// weighs choices, and look-ups.
#pragma once

#include "op/stage_rules.h"

namespace stretto {

bool is_routed_stage(StageKind kind);
// Why rows of IDS do not choose among so many experts, or what they are called; empty: they do.
std::string fault_in_ids(const Tensor& ids, int64_t experts, std::string_view called = "matrices");
StageRule routed_rule(const Stage& stage, std::span<const Tensor* const> in, int ranks,
                      DType dtype);

}  // namespace stretto

// The reference of stages that choose experts by scores: by sorting them, row by row.
#pragma once

#include <cstdint>
#include <vector>

#include "op/stage_values.h"

namespace stretto {

struct ChosenRows {
  Rows ids;  // -2 in all of a row that has a NaN
  // By row: whether every right implementation chooses the same. Where scores are not exact, two
  // may be too near to each other for that.
  std::vector<bool> is_sure;
};
ChosenRows choose_experts(const Stage& stage, const Rows& scores, const Rows* bias);

Rows weigh_choices(const Stage& stage, const Rows& scores, const Rows& ids);

}  // namespace stretto

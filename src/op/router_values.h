// The reference of stages that choose experts by scores: by sorting them, row by row.
#pragma once

#include <cstdint>
#include <vector>

#include "op/rows.h"
#include "stretto/operator.h"

namespace stretto {

struct ChosenRows {
  Rows ids;  // -2 in all of a row that has a NaN
  // By row: whether every right implementation chooses the same. Where scores are not exact, two
  // may be too near to each other for that.
  std::vector<bool> is_sure;
};
ChosenRows choose_experts(const Stage& stage, const Rows& scores, const Rows* bias);

// `dtype`: the operator's.
Rows weigh_choices(const Stage& stage, DType dtype, const Rows& scores, const Rows& ids);

// Of each id those of its slices in a stack of slice 0 of all experts, slice 1 of all, ...; -1
// where it is no expert's.
Rows slices_of(const Rows& ids, int64_t experts, int64_t slices);
// Each column so often.
Rows repeat_cols(const Rows& rows, int64_t times);

}  // namespace stretto

// Outputs whose rows are a partition's: they are stored by choice, by tiles or a permute, and read
// by nobody.
#pragma once

#include "launch/choice_rows.h"
#include "launch/tile_sums.h"
#include "tables/limit_list.h"

namespace stretto::cuda {

class ChoiceLimits {
 public:
  ChoiceLimits(const Plan& plan, const TileSums& sums) : plan_(plan), sums_(sums), rows_(plan) {}

  void look_at(const InstrRef& at, LimitList& limits) const;

 private:
  const Plan& plan_;
  const TileSums& sums_;
  const ChoiceRows rows_;
};

}  // namespace stretto::cuda

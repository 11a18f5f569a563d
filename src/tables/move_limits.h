// What kernels ask of tasks that move elements, add them up, norm rows or go by tables.
#pragma once

#include "tables/limit_list.h"

namespace stretto::cuda {

class MoveLimits {
 public:
  explicit MoveLimits(const Plan& plan) : plan_(plan), has_tables_(plan.has_tables()) {}

  // Of any instruction; `by_mover`: no product's tile has it in registers.
  void look_at(const InstrRef& at, bool by_mover, LimitList& limits) const;

 private:
  const Plan& plan_;
  const bool has_tables_;
};

}  // namespace stretto::cuda

// How many waits, notifies and destinations a tile's task has: its fields have a byte for each.
#pragma once

#include "tables/limit_list.h"

namespace stretto::cuda {

class TaskCounts {
 public:
  explicit TaskCounts(const Plan& plan) : plan_(plan) {}

  // The task that begins with the gemm `first`, has the whole tile behind the gemm at `at`, and
  // ends with the instruction `last`.
  void count(const InstrRef& at, uint32_t first, uint32_t last);

  // Once all were counted: what is more than a byte holds.
  void add_to(LimitList& limits) const;

 private:
  // What some task has most of, and its gemm.
  struct Most {
    size_t count = 0;
    InstrRef where;

    void raise_to(size_t other, const InstrRef& at) {
      if (other > count) *this = {other, at};
    }
  };

  const Plan& plan_;
  Most waits_, notifies_, destinations_;
};

}  // namespace stretto::cuda

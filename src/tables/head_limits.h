// What is ahead of the tiles between two boundaries: a kernel that makes partitions and permutes
// rows, which ends before that of the tiles begins.
#pragma once

#include <vector>

#include "tables/limit_list.h"

namespace stretto::cuda {

class HeadLimits {
 public:
  explicit HeadLimits(const Plan& plan) : plan_(plan) {}

  // Every instruction of a lane in its order: in which stretch it is, whether that kernel has it,
  // and whether tiles stand before it.
  void pass(const InstrRef& at, size_t stretch, bool is_head, bool has_tiles);

  // Once all lanes were passed.
  void add_to(LimitList& limits);

 private:
  // A signal that a rank's compute lane awaits or tells, in which of its stretches.
  struct Told {
    int rank;
    size_t stretch;
    uint16_t array;
    int32_t index;
    InstrRef at;
  };

  Told told_at(const InstrRef& at, size_t stretch) const;

  const Plan& plan_;
  std::vector<Told> head_waits_, told_behind_tiles_;
};

}  // namespace stretto::cuda

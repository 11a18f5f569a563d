// What a lane itself says of the sums that its gemms begin.
#pragma once

#include <optional>
#include <set>
#include <tuple>

#include "launch/tile_sums.h"

namespace stretto::cuda {

// Signals that some lane awaits in the run in which they are made.
class AwaitedAtOnce {
 public:
  explicit AwaitedAtOnce(const Plan& plan) : plan_(plan) {}

  bool operator()(const Instr& notify) {
    if (!awaited_) find();
    return awaited_->count({notify.rank, notify.signal.array, notify.signal.index}) > 0;
  }

 private:
  void find() {
    awaited_.emplace();
    for (const Lane& lane : plan_.lanes) {
      for (const Instr& instr : lane.instrs) {
        if (instr.op == Opcode::wait && instr.lag == 0) {
          awaited_->emplace(lane.rank, instr.signal.array, instr.signal.index);
        }
      }
    }
  }

  const Plan& plan_;
  std::optional<std::set<std::tuple<uint16_t, uint16_t, int32_t>>> awaited_;
};

// The reduce behind `at` and the waits and notifies that follow it; 0: something else follows.
uint32_t reduce_behind(const Lane& lane, uint32_t at);

// The sum of the gemm at `at`, where the lane allows one; others may still read the tile.
TileSum sum_in_lane(const Plan& plan, const Lane& lane, uint32_t at,
                    AwaitedAtOnce& awaited_at_once);

// The reduce that adds sums of ranges of K, one of which the gemm at `at` has left in scratch
// memory, whether or not the kernel can; 0: none does.
uint32_t reduce_of_ranges(const Plan& plan, const Lane& lane, uint32_t at);

}  // namespace stretto::cuda

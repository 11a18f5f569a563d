// What follows a product tile by tile in its lane, and so in the registers of the GEMM kernel.
#pragma once

#include <cstdint>
#include <vector>

#include "stretto/device/gemm_task.h"
#include "stretto/plan.h"

namespace stretto::cuda {

class TileSums;

// A tile that is worked on before it is stored: a row of bias is added to it, it goes through an
// activation, or, beside another product of the same A, it makes up a swiglu. Each of them takes
// what the one before has left in fp32 in the rank's own memory, which nothing else touches: so it
// never leaves the registers. Positions are those of the tile's lane.
struct FollowedTile {
  uint32_t begin = 0;         // the first gemm; of ranges of K, the one that ends the tile
  uint32_t made = 0;          // the same, or the sum over its ranges
  uint32_t last = 0;          // what follows last: its result is what is stored
  uint32_t product = 0;       // the gemm; of two, the one that goes through the activation
  uint32_t other = 0;         // swiglu: the other gemm
  uint32_t bias[2] = {0, 0};  // of either, the bias that is added; 0: none
  device::Follower follower = device::Follower::none;

  bool has_bias() const { return bias[0] != 0 || bias[1] != 0; }
  bool has_two() const { return follower == device::Follower::swiglu; }
  uint32_t last_gemm() const { return has_two() && other > product ? other : product; }
};

// Tasks that GPUs do in no other place.
bool only_follows(Opcode op);

class Followers {
 public:
  Followers() = default;
  // `sums` are those of the plan, as far as lanes and reads tell.
  Followers(const Plan& plan, const TileSums& sums);

  // The tile that the instruction at `position` is a part of, from its first gemm on; null: none.
  const FollowedTile* around(uint32_t lane, uint32_t position) const;
  // The tile that begins with the gemm at `position`; null: none.
  const FollowedTile* from(uint32_t lane, uint32_t position) const {
    const FollowedTile* tile = around(lane, position);
    return tile != nullptr && tile->begin == position ? tile : nullptr;
  }
  // Whether the buffer only holds what stays in registers.
  bool needs_no_memory(uint16_t buffer) const {
    return !in_registers_.empty() && in_registers_[buffer] != 0;
  }

 private:
  void find_in_lane(const Plan& plan, const TileSums& sums, uint32_t lane);
  void drop_what_others_touch(const Plan& plan);

  std::vector<std::vector<FollowedTile>> by_lane_;  // empty where no lane has any
  std::vector<uint8_t> in_registers_;               // by buffer; empty where none is
};

}  // namespace stretto::cuda

// What the GEMM kernel asks of its operands: maps that the hardware takes, and ranges of K.
#pragma once

#include <string>
#include <vector>

#include "launch/tile_sums.h"
#include "tables/limit_list.h"

namespace stretto::cuda {

// Why no tensor map can be made of the buffer; empty where one can.
std::string why_no_map(const Buffer& buffer);

class OperandLimits {
 public:
  OperandLimits(const Plan& plan, const TileSums& sums)
      : plan_(plan), sums_(sums), is_mapped_(plan.buffers.size(), false) {}

  // Of a product, which may be a part of `tile`.
  void look_at(const InstrRef& at, const FollowedTile* tile, LimitList& limits);

 private:
  void look_at_stack(const InstrRef& at, LimitList& limits) const;

  const Plan& plan_;
  const TileSums& sums_;
  std::vector<uint8_t> is_mapped_;  // by buffer: by the GEMM kernel
};

}  // namespace stretto::cuda

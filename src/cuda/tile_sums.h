// Reduces that the GEMM kernel does itself: of a tile that its lane has just computed.
#pragma once

#include <cstdint>
#include <vector>

#include "stretto/plan.h"

namespace stretto::cuda {

// The reduce that adds other ranks' sums to the tile of a gemm: it follows with nothing but waits
// between, and reads what the gemm writes, which lies at equal distances from the sums of the
// others. The tile itself is then never stored, so nothing else reads it.
struct TileSum {
  uint32_t position = 0;  // of the reduce; 0: there is none, or a mover has to do it
  uint32_t own_at = 0;    // which of its sources is the tile
  int32_t step_rows = 0;  // of the buffer, from source to source

  explicit operator bool() const { return position != 0; }
};

class TileSums {
 public:
  explicit TileSums(const Plan& plan);

  // Of the gemm at `at` of plan.lanes[lane].
  TileSum of(uint32_t lane, uint32_t at) const;
  // Sources beside the tile itself that every such reduce of the plan adds; 0 when there is none.
  int sources() const { return sources_; }

 private:
  struct Entry {
    uint32_t lane, at;
    TileSum sum;
  };
  std::vector<Entry> sums_;  // in the order of the plan
  int sources_ = 0;
};

}  // namespace stretto::cuda

// What the tiles of a plan ask of a GEMM kernel.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "stretto/plan.h"

namespace stretto::cuda {

class TileSums;

// Rows [first, last) of a tile that lie in one region of A.
struct RowPart {
  int32_t first, last;
  const Region* a;
};

// Calls visit(part) for every part of the gemm's tile, from the first row on.
template <typename Visit>
void for_each_row_part(const Plan& plan, const Instr& gemm, const Visit& visit) {
  const std::span<const Region> reads = plan.reads(gemm);
  int32_t row = 0;
  for (const Region& a : reads.first(reads.size() - 1)) {
    visit(RowPart{row, row + a.rows(), &a});
    row += a.rows();
  }
}

// What the tiles of a plan ask of a kernel.
struct GemmNeeds {
  int rows = 0, columns = 0;    // of the largest
  bool parts = false;           // some tile is stored from a row on that begins none of its chunks
  std::optional<DType> stored;  // what every tile is stored in; nothing: none is, or they differ
  bool moves = false;           // comm lanes are blocks of it (joined_movers.h says so)
};

// Asks every tile.
GemmNeeds find_needs(const Plan& plan, const TileSums& sums);

}  // namespace stretto::cuda

// Which GEMM kernel suits a plan.
#pragma once

#include <optional>
#include <span>

#include "cuda/gemm_kernel.h"
#include "cuda/tile_sums.h"
#include "stretto/plan.h"

namespace stretto::cuda {

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
// Blocks of K that a gemm multiplies.
uint32_t blocks_of_k(const Plan& plan, const Instr& gemm);

// What the tiles of a plan ask of a kernel.
struct GemmNeeds {
  int rows = 0, columns = 0;    // of the largest
  bool parts = false;           // some tile is stored from a row on that is not its first
  std::optional<DType> stored;  // what every tile is stored in; nothing: none is, or they differ
};
GemmNeeds needs_of(const Plan& plan, const TileSums& sums);

// The smallest kernel whose tiles hold rows x columns. Throws UsageError when there is none.
device::GemmConfig config_of(DType input, DType output, int rows, int columns);
// The kernel that suits the plan's tiles; with `serves` runs may have fewer rows (serve.h).
device::GemmConfig config_for(const Plan& plan, const TileSums& sums, const GemmNeeds& needs,
                              bool serves = false);

}  // namespace stretto::cuda

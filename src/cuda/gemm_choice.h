// Which GEMM kernel suits a plan.
#pragma once

#include <optional>
#include <vector>

#include "cuda/gemm_kernel.h"
#include "cuda/tile_sums.h"
#include "stretto/plan.h"

namespace stretto::cuda {

// Rows [first, last) of a tile that lie in one region of A.
struct RowPart {
  int32_t first, last;
  const Region* a;
};

std::vector<RowPart> row_parts(const Plan& plan, const Instr& gemm);

// The dtype that every tile of the plan is stored in; nothing when there is none or they differ.
std::optional<DType> stored_dtype(const Plan& plan, const TileSums& sums);

// The smallest kernel whose tiles hold rows x columns. Throws UsageError when there is none.
device::GemmConfig config_of(DType input, DType output, int rows, int columns);
// The kernel that suits the plan's tiles; with `serves` runs may have fewer rows (serve.h).
device::GemmConfig config_for(const Plan& plan, const TileSums& sums, bool serves = false);

}  // namespace stretto::cuda

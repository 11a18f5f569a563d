// Which GEMM kernel suits a plan.
#pragma once

#include "cuda/gemm_kernel.h"
#include "cuda/tile_sums.h"
#include "stretto/plan.h"

namespace stretto::cuda {

// Blocks of K that a gemm multiplies.
uint32_t blocks_of_k(const Plan& plan, const Instr& gemm);

// The smallest kernel whose tiles hold rows x columns. Throws UsageError when there is none.
device::GemmConfig config_of(DType input, DType output, int rows, int columns);
// The kernel that suits the plan's tiles; with `serves` runs may have fewer rows (serve.h).
device::GemmConfig config_for(const Plan& plan, const TileSums& sums, const GemmNeeds& needs,
                              bool serves = false);

}  // namespace stretto::cuda

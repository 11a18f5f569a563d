// Which GEMM kernel suits which tiles.
#pragma once

#include <string>

#include "gpu/gemm_kernel.h"
#include "launch/tile_sums.h"
#include "stretto/plan.h"

namespace stretto::cuda {

// Blocks of K that a gemm multiplies.
uint32_t blocks_of_k(const Plan& plan, const Instr& gemm);

// Why no kernel has tiles that hold these; empty when one has.
std::string why_no_tile(const GemmNeeds& needs, bool serves);

// The smallest kernel whose tiles hold rows x columns. Throws UsageError when there is none.
device::GemmConfig config_of(DType input, DType output, int rows, int columns);
// The kernel that suits tiles of the plan; with `serves` runs may have fewer rows (serve.h).
device::GemmConfig config_for(const Plan& plan, const GemmNeeds& needs, bool serves = false);

}  // namespace stretto::cuda

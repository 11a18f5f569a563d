// Comm lanes as blocks of the GEMM kernel (stretto/device/gemm_mover.h).
#pragma once

#include "launch/rank_program.h"

namespace stretto::cuda {

// Makes the comm lanes of every rank blocks of its GEMM kernel where all of a rank's run is one
// GEMM kernel, and comm lanes that copy whole vectors: 8 elements, at multiples of 16 bytes.
void join_movers(const Plan& plan, std::vector<RankProgram>& programs);

}  // namespace stretto::cuda

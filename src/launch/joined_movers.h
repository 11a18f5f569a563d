// Comm lanes as blocks of GEMM kernels (stretto/device/gemm_mover.h).
#pragma once

#include "launch/rank_program.h"

namespace stretto::cuda {

// Makes the comm lanes of every rank blocks of its GEMM kernels, where they copy whole vectors, 8
// elements at multiples of 16 bytes, and have no other stream beside them. So a rank has one
// stream, whose kernels are started while those before them end. A stream of their own costs a fork
// and a join in every run, and no kernel could start early.
//
// What a comm lane does is cut: it begins in the first GEMM kernel behind all that it awaits of its
// run, and no kernel ends before its part. Where a run is one kernel, lanes may await its tiles.
void join_movers(const Plan& plan, std::vector<RankProgram>& programs);

}  // namespace stretto::cuda

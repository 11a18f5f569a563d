// Whether kernels read early, or send instead of storing, only what nobody can miss.
//
// A kernel that is started before the one ahead of it has ended waits for that end by itself, but
// for three sorts of reads:
//   the kernel of experts' products, behind another of them, reads partition and weights early;
//   a combine behind experts' products reads what is no row of theirs early;
//   the kernel of few rows reads weights early that the caller gives, behind a collective or
//   another such kernel.
// Each of these lets the next start only behind its own wait, but for a product of experts behind
// another: that may let the next start before the first has ended, which has waited. So what is
// read early must not be written by the kernel right ahead, nor by experts' products right ahead of
// that one. The collective that receives what a kernel of few rows sends is there before that one
// ends, and rows that are sent are never in memory.
#pragma once

#include <vector>

#include "check/findings.h"
#include "launch/rank_program.h"
#include "stretto/plan.h"

namespace stretto::checker {

void check_early_reads(const Plan& plan, const std::vector<cuda::RankProgram>& programs,
                       Findings& findings);

}  // namespace stretto::checker

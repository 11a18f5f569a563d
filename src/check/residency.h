// Blocks that wait must be resident together with what they wait for.
#pragma once

#include "check/counters.h"
#include "check/findings.h"
#include "check/instr_index.h"
#include "stretto/plan.h"

namespace stretto::checker {

// A block that waits holds its SM, and what ends its wait may need one:
//   a block lane (compute or comm), where a rank has more of them than SMs;
//   a collective, whose kernel fits beside no block;
//   a signal of a copy or nccl lane, a kernel of one warp that fits beside a mover's block (a comm
//   lane, or a compute lane behind its last gemm) but beside none of the GEMM's.
// So a rank is reported when so many blocks, or for signals blocks of the GEMM, as it has SMs wait,
// directly or through other lanes, for something that may then find no SM, on this rank or on
// another that is reported too.
//
// A compute lane does not hold its SM in waits at a boundary or at its end: with nothing but a
// boundary behind them, they are made when the kernel is over. Those of a comm lane, which is one
// kernel, are always held. Waits with lag do not count: the runs before have ended on this rank.
// Nor do the kernels before the one that waits, on its rank.
void check_residency(const Plan& plan, const InstrIndex& index, const Counters& counters, int sms,
                     Findings& findings);
// True when nothing has to be looked at closer.
bool all_fit(const Plan& plan, int sms);

}  // namespace stretto::checker

// Whether the programs of all ranks come to their ends.
//
// Streams make their steps in order; all blocks of a kernel that has begun go on side by side.
// Counters only grow, so who can go on does not depend on the order in which they do: one greedy
// execution finds every deadlock. One run is enough: with the runs before at their ends, waits for
// those have passed.
//
// The hardware has so many queues for streams. Streams that share one wait for each other: a step
// holds up all that was enqueued after it until it has begun. Where a rank has more streams than
// queues, all of them are taken to share one, for then no sharing of fewer holds anything up.
#pragma once

#include <vector>

#include "check/counters.h"
#include "check/findings.h"
#include "check/instr_index.h"
#include "check/program_places.h"
#include "launch/rank_program.h"
#include "stretto/plan.h"

namespace stretto::checker {

inline constexpr size_t kQueues = 8;  // but for CUDA_DEVICE_MAX_CONNECTIONS

// Of a plan that comes to its end. Places and what is enqueued are to be relied on. Reports every
// circle of streams that wait for each other.
void check_program_run(const Plan& plan, const InstrIndex& index, const Counters& counters,
                       const std::vector<cuda::RankProgram>& programs, const ProgramPlaces& places,
                       Findings& findings, size_t queues = kQueues);

}  // namespace stretto::checker

// Stream events in place of counters, where a stream of a rank waits for another of the same rank.
#pragma once

#include <vector>

#include "launch/rank_program.h"

namespace stretto::cuda {

// Replaces waits by events where steps of the same rank make every notify of the counter, and drops
// notifies that nothing awaits any more. Waits for an earlier run (lag) of such a counter go away:
// runs of one rank follow one another. Collectives that take turns with what compute lanes do come
// to be steps of their stream: in a graph of two streams each change from one to the other takes
// microseconds.
void put_events(const Plan& plan, std::vector<RankProgram>& programs);

}  // namespace stretto::cuda

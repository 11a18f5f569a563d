// The waits and notifies of ranks that are alike.
#pragma once

#include "sync/edges.h"

namespace stretto {

// Writes those of every rank, which are images of rank 0's `groups`. No rank acknowledges anything.
void write_alike_signals(Draft& draft, const SignalGroups& groups, const AlikeRanks& alike);

}  // namespace stretto

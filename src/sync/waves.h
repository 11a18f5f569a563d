// The tiles that the lanes of a rank begin together.
#pragma once

#include <vector>

#include "sync/edges.h"

namespace stretto {

// With `start=wave` a lane's w-th tile waits for what movers push for the w-th tile of any lane of
// its rank. Tiles that begin together read the same blocks of B at the same time, so that B comes
// out of memory once. Lanes that rows have kept waiting stay behind the others from then on: each
// reads B by itself, and where it does not fit into the L2 cache tiles take a fifth to a third
// longer (docs/notes/in-step.md).
//
// Adds to `edges`, by acquire those of each instruction alone, what waves wait for: of each mover
// the last release, which stands for all before it. Where ranks are alike, rank 0's.
void share_among_waves(const Draft& draft, const AlikeRanks* alike, std::vector<SyncEdge>& edges);

}  // namespace stretto

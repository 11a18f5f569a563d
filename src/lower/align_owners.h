// Owners of a tile compute it no earlier than anybody else.
#pragma once

#include "lower/lowering.h"

namespace stretto {

// Where ranks add to their rows of a tile as they compute it, others' sums of it must be computed
// by then: it has to be in the same wave on all its owners, and in no later one on any rank. Where
// the orders of tiles do not make it so, tiles move to other waves.
void align_owners(SegmentLowering& state);

}  // namespace stretto

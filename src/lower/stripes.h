// Copies between the stripes that a part's rows are in a caller's tensor, and the block of them
// that a product of one kernel takes or makes.
#pragma once

#include "lower/emitter.h"

namespace stretto {

// Ahead of the product, and behind it; nothing where there are no stripes.
void take_from_stripes(SegmentLowering& product, Emitter& emit);
void put_in_stripes(SegmentLowering& product, Emitter& emit);

}  // namespace stretto

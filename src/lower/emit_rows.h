// Segments without a product: stages over rows that a rank has, and gathers for the caller.
#pragma once

#include "lower/emit_patterns.h"

namespace stretto {

// For a part of the rows, by compute lanes or by movers that are blocks.
AfterTiles emit_rows(Lowering& state, const PartLowering& part, const OperatorSegment& segment,
                     bool by_movers);

}  // namespace stretto

// Segments without a product: stages over rows that a rank has, and gathers for the caller.
#pragma once

#include "lower/lowering.h"

namespace stretto {

void emit_rows(Lowering& state, const OperatorSegment& segment);

}  // namespace stretto

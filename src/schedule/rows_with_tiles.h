// Stages over rows that the lanes of a product's tiles take, in the tiles' kernel.
#pragma once

#include <string>

#include "stretto/schedule.h"

namespace stretto {

// Whether the schedule says so of that segment, by "NAME:mover=epilogue": each lane takes rows of
// the product before it behind its own last tile, as soon as their sums are there, while the stores
// of other tiles are still on their way. Else they are a kernel of their own.
bool takes_rows_with_tiles(const OperatorSchedule& schedule, const OperatorSegment& rows);

// Why the schedule cannot say so of that segment; empty when it can.
std::string why_no_rows_with_tiles(const Operator& op, const OperatorSchedule& schedule,
                                   const OperatorSegment& rows);

}  // namespace stretto

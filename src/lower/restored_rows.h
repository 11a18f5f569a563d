// Sums that were packed tile by tile, and whose rows are normed next: who norms a row looks its
// tiles up, so that no task of its own puts them in order.
#pragma once

#include "lower/lowering.h"

namespace stretto {

// Of the product that is segment `index`: where its schedule packs tiles, and the next segment
// begins with the norm of its result, or with `add` of its result, which nothing else takes, and a
// residual, and the norm of that.
std::optional<RestoredRows> restored_rows(const Operator& op, size_t index,
                                          const Schedule& schedule);

// The product of that part whose tiles the segment's rows are restored from; null: none.
const SegmentLowering* restored_from(const Lowering& state, const PartLowering& part,
                                     const OperatorSegment& segment);

// Where a rank has the sums of a tile: rows [row0, row1) of it, counted from its first.
Region packed_sums(const SegmentLowering& product, int rank, int32_t tile, int32_t row0,
                   int32_t row1);

}  // namespace stretto

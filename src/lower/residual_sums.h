// Sums of products that a residual is added to: who adds up the ranks' terms of a tile reads the
// residual's tile too, so that no task goes through all rows for it.
#pragma once

#include "lower/lowering.h"

namespace stretto {

// Of the product that is segment `index`: where its sums are the plan's own tasks, in the
// operator's type, and the next segment begins with `add` of its result, which nothing else takes,
// and a tensor that is there before.
std::optional<ResidualSum> residual_sum(const Operator& op, size_t index, const Schedule& schedule);

// The product of that part whose sums make the tensor, a residual's; null: a stage of its own does.
const SegmentLowering* summed_by(const Lowering& state, const PartLowering& part, int tensor);

// Whether such sums have made all that the segment is for.
bool is_made_by_sums(const Lowering& state, const PartLowering& part,
                     const OperatorSegment& segment);

}  // namespace stretto

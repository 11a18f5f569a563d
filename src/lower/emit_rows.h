// Segments without a product: stages over rows that a rank has, and edges for the caller.
#pragma once

#include "lower/emit_patterns.h"

namespace stretto {

// For a part of the rows, by compute lanes or by movers that are blocks.
AfterTiles emit_rows(Lowering& state, const PartLowering& part, const OperatorSegment& segment,
                     bool by_movers);

// Of a gather's segment, likewise: what a rank has goes to all.
AfterTiles emit_gathered_output(Lowering& state, const PartLowering& part,
                                const OperatorSegment& edge, bool by_movers);

// The product whose lanes take the segment's rows behind their tiles, as the schedule says; null:
// rows are a kernel of their own. Where the product's sums are one-shot, the rows' tasks make them.
const SegmentLowering* product_with_rows(const Lowering& state, const PartLowering& part,
                                         const OperatorSegment& segment);
bool sums_with_rows(const SegmentLowering& product);

// The product of that part that gathers what the segment hands over; null: it hands over nothing.
const SegmentLowering* gathers_for(const Lowering& state, const PartLowering& part,
                                   const OperatorSegment& segment);
// Copies what it has gathered to the caller's tensor: by the movers that have sent it, where these
// are blocks, beside its tiles, else by compute lanes.
bool movers_hand_over(const SegmentLowering& product);
void hand_over_rows(Lowering& state, const PartLowering& part, const SegmentLowering& product,
                    const OperatorSegment& segment);

// Whether the segment hands over how many choices each expert has.
bool counts_choices(const Operator& op, const OperatorSegment& segment);
// Adds up what the blocks of a partition have counted, right behind what else its lane does: nobody
// else waits for it.
void emit_counts(Lowering& state, const PartLowering& part, const OperatorSegment& segment);

}  // namespace stretto

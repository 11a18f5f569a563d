// Own rows that every rank's caller gets, and that no stage takes: who makes them sends them, so
// that no kernel behind goes through them once more.
#pragma once

#include "lower/lowering.h"

namespace stretto {

// The gather of what the segment's last stage makes, which that stage does; null: there is none, or
// it is a segment's own.
const OperatorSegment* gather_by_stage(const Lowering& state, const PartLowering& part,
                                       const OperatorSegment& rows);

// Whether a stage does what the gather is for.
bool is_sent_by_stage(const Lowering& state, const PartLowering& part,
                      const OperatorSegment& gather);

}  // namespace stretto

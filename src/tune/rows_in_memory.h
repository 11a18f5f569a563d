// Which schedules serve rows that stand in GPU memory, and what that costs them.
#pragma once

#include "stretto/tune.h"

namespace stretto {

// A library cannot look there, and multiplies as many rows as there may be. Up to 256 that is no
// loss: a GPU reads B in the time of 170 rows or so, and what was measured are all of a bucket's
// rows. In the smallest bucket, which of many ranks has more, it is none either, since a call says
// how many rows there may be, and no more are multiplied. A result that is copied must have rows of
// whole vectors.
bool serves_from(const Schedule& schedule, const Segment& op, RowsFrom from);

// What a run takes beyond one of all rows that the host says, which is what was measured. Our
// kernels nothing; low-latency collectives read the rows before they begin, and behind a library's
// product that is the caller's result there is a copy of what the run has of it.
double us_beyond_measured(const Schedule& schedule, const Segment& op, const Machine& machine,
                          RowsFrom from);

}  // namespace stretto

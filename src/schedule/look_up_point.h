// Points for pooled look-ups.
#pragma once

#include "stretto/schedule.h"

namespace stretto {

// Look-ups, then NCCL.
Schedule look_ups_sequential(const Segment& op, const Machine& machine);
// A rank's bags leave by copy engines as they are whole.
Schedule look_ups_copied(const Segment& op, const Machine& machine);
// Who looks up stores to the peer: of a few tables, or of all that a rank has.
Schedule look_ups_pushed(const Segment& op, const Machine& machine, Granularity granularity);

// Tables that a task of so many columns looks up in, of those that a rank has.
int64_t look_ups_at_once(const Segment& op, int tile_n);

}  // namespace stretto

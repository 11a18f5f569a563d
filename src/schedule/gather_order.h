// In which order the tiles of a gather go, by what they read of B (docs/notes/order-reads.md).
#pragma once

#include "stretto/machine.h"
#include "stretto/segment.h"

namespace stretto {

// Whether B is larger than the L2 cache, so that lanes out of step would each read it by
// themselves.
bool is_larger_than_cache(const Segment& op, const Machine& machine);

// Whether a row of a gather's tiles is two fifths of a wave or more. Then tiles in the order in which
// rows arrive read B again for every row of tiles or two; in the order of a sweep they read it once
// for eight.
bool has_wide_rows(const Segment& op, const Machine& machine);

// Own rows that fill all SMs for a while hide the flight of the others'.
bool own_tiles_fill(const Segment& op, const Machine& machine);

// Whether tiles go by the rank's own rows first, in sweeps, and not as rows arrive: B would be read
// again and again, and nothing is lost with rows that are awaited. 2048 rows, 28,672 columns of a
// rank and K = 8192 took 1701 us in the order of arrival and 1441 so, in another session 1422 so
// and 1530 by NCCL and our kernel behind it (2 x H200).
bool goes_in_sweeps(const Segment& op, const Machine& machine);

}  // namespace stretto

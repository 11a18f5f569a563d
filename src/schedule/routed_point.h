// Schedules of products whose rows choose matrices, as presets make them.
#pragma once

#include "stretto/schedule.h"

namespace stretto {

// One partition of all tokens, NCCL before and behind it.
Schedule routed_sequential(const Segment& op, const Machine& machine, GemmBy gemm);
// Tiles as tokens arrive, sums as they are made; a partition for each source where the rows that
// this leaves empty cost little.
Schedule routed_tiles(const Segment& op, const Machine& machine);
// Of rows that are only moved: one partition, whose entries have few rows.
Schedule routed_few_rows(const Segment& op, const Machine& machine);

}  // namespace stretto

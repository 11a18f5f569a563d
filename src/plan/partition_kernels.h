// Partitions that a kernel of their own makes on GPUs, with the blocks of a cluster for each.
#pragma once

#include <cstdint>

#include "stretto/plan.h"

namespace stretto {

// Of a compute lane's instructions [begin, end): how many blocks make each of its partitions. 0:
// the lane does something else too, awaits or tells somebody, or blocks have no room. All that a
// rank does between two kernels has to be such.
int partition_blocks(const Plan& plan, const Lane& lane, uint32_t begin, uint32_t end);

// Whether the kernel of a collective of the device language makes the partition of `route` too: a
// dispatch that brings the ids of all tokens, where even one block of its kernel has room.
bool comes_with_partition(const Plan& plan, const Instr& collective, const Instr& route);

}  // namespace stretto

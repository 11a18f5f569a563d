// Movers between two kernels of a stream as passes (stretto/device/pass.h), or as partitions.
#pragma once

#include <span>
#include <vector>

#include "launch/rank_program.h"

namespace stretto::cuda {

// Whether the blocks of a kernel of movers may be a pass: compute lanes that await and notify
// nobody, and add, map and norm, or sum or move the rows that tables name, in vectors of 16 bytes.
// Notifies pay in movers: a block that fences what it has stored holds up those that would take its
// place.
bool is_pass(const Plan& plan, const std::vector<BlockPart>& parts);

// How many blocks of a cluster make each of the partitions that a kernel of movers is made up of
// (stretto/device/partition_kernel.h); 0: it does something else, or awaits or tells somebody.
int partition_blocks(const Plan& plan, const std::vector<BlockPart>& parts);

// Buffers whose elements lie in vectors, as far as the plan says.
bool in_vectors(const Plan& plan, std::span<const Region> regions);

}  // namespace stretto::cuda

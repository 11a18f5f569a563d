// Movers between two kernels of a stream as passes (stretto/device/pass.h), or as partitions.
#pragma once

#include <span>
#include <vector>

#include "launch/rank_program.h"

namespace stretto::cuda {

// Whether the blocks of a kernel of movers may be a pass: compute lanes that notify nobody, and
// add, map and norm, or sum or move the rows that tables name, in vectors of 16 bytes. Notifies pay
// in movers: a block that fences what it has stored holds up those that would take its place. A
// pass awaits peers only where its rank has no other stream, for a kernel there, which a peer may
// wait for, might find no SM free; and only for one task a block, for movers await the next ones
// ahead.
bool is_pass(const Plan& plan, const RankProgram& program, const std::vector<BlockPart>& parts);

// How many blocks of a cluster make each of the partitions that a kernel of movers is made up of
// (stretto/device/partition_kernel.h); 0: it does something else, or awaits or tells somebody.
int partition_blocks(const Plan& plan, const std::vector<BlockPart>& parts);

// Buffers whose elements lie in vectors, as far as the plan says.
bool in_vectors(const Plan& plan, std::span<const Region> regions);

}  // namespace stretto::cuda

// What a block moves or adds as the tasks of a mover kernel's table.
#pragma once

#include <span>
#include <vector>

#include "plan/normed_rows.h"
#include "tables/plan_tables.h"
#include "tables/table_basis.h"

namespace stretto::cuda {

// Which tasks of a mover's lane touch what earlier ones write, or write what they read: the mover
// would have several of them under way at once.
class LaneHazards {
 public:
  // Whether the earlier tasks must end before this one begins; asked in the lane's order.
  bool must_end_before(std::span<const Region> reads, std::span<const Region> writes);

 private:
  std::vector<Region> read_, written_;
};

// What movers make of the sources of a task of a kind that has no task of its own; others' is an
// InternalError.
device::MoverMap mover_map_of(Opcode op);

// The task of one of those, or of a deliver; `hazards` are those of its block.
device::MoverTask mover_task(const TableBasis& basis, const Instr& instr, MoverTable& table,
                             LaneHazards& hazards);

// Throws UsageError where a tensor of the caller's begins at no multiple of 16 bytes.
device::MoverTask norm_task(const TableBasis& basis, const NormedRows& rows, MoverTable& table,
                            LaneHazards& hazards);

}  // namespace stretto::cuda

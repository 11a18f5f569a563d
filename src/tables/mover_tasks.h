// What a block moves or adds as the tasks of a mover kernel's table.
#pragma once

#include <span>
#include <string>
#include <vector>

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

// The task of a copy, reduce or deliver; `hazards` are those of its block.
device::MoverTask mover_task(const TableBasis& basis, const Instr& instr, MoverTable& table,
                             LaneHazards& hazards);

// Rows that a task norms: `norm` reads them and a row of weights. `sum`, if any, is the reduce
// before it that makes them, which the same task then does.
struct NormedRows {
  const Instr* sum = nullptr;
  const Instr* norm = nullptr;
  float epsilon = 0;
};
// Why no task can; empty when one can. With a sum they may still be two tasks.
std::string why_no_norm(const Plan& plan, const NormedRows& rows);
// What the task that begins with the instruction at `at` of a lane's [at, end) norms: the rows of a
// norm, or of the sum that stands before one and makes its rows. No norm: it is another task.
NormedRows rows_normed_at(const Plan& plan, const Lane& lane, uint32_t at, uint32_t end);
// Throws UsageError where a tensor of the caller's begins at no multiple of 16 bytes.
device::MoverTask norm_task(const TableBasis& basis, const NormedRows& rows, MoverTable& table,
                            LaneHazards& hazards);

}  // namespace stretto::cuda

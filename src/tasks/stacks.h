// Stacks of matrices, one for each expert: a region of a stack has some rows of every matrix, from
// those of the first to those of the last, and all that lies between.
#pragma once

#include <algorithm>

#include "tasks/tables.h"

namespace stretto::tasks {

// A column of experts' numbers, for the entries that the rows are of.
TaskFault fault_in_entries(const Region& experts, const Region& rows);

// Calls visit(first, last, expert) for the entries of which rows are asked for: rows [first, last)
// of those. The second read has the experts.
template <typename Visit>
void for_each_entry(const Work& work, const Visit& visit) {
  const Operand& experts = work.reads[1];
  const int64_t each = work.operands.reads[0].rows() / experts.rows;
  for (int64_t first = 0; first < work.rows;) {
    const int64_t entry = (work.first + first) / each;
    const int64_t last = std::min(work.rows, (entry + 1) * each - work.first);
    visit(first, last, number_in(experts, entry));
    first = last;
  }
}

// The last read is a stack whose matrices begin `each` rows after one another, and the result has
// a column for each of a matrix's rows.
TaskFault fault_in_stack(const KindOperands& operands);
double flops_of_stack(std::span<const Region> reads, std::span<const Region> writes, int64_t rows);

// Rows of the result from row `from` of A on: A times the transpose of the expert's matrix.
// Whether the stack has a matrix of that number. EXPERTS is what a run finds there: any number.
bool has_expert(const Work& work, int32_t expert);

void multiply_by_expert(const Work& work, const MatrixView& a, int64_t from, int64_t rows,
                        int32_t expert);

}  // namespace stretto::tasks

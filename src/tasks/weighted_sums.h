// Weighted sums of the rows that a token's choices have in a partition.
#pragma once

#include "tasks/routed_kernel.h"
#include "tasks/work.h"

namespace stretto::tasks {

// WEIGHTS [n, k], ROWS [n * k, 1], Y.
TaskFault fault_in_sums(std::span<const Region> reads);
// What a routing without preference reads of Y and writes.
TaskShares shares_of_sums(const KindOperands& operands);

// Y's row of a token's slot, counted from the task's first token; none outside Y.
using RowOfSlot = int64_t (*)(const Work& work, int64_t token, int64_t slot);
int64_t row_by_table(const Work& work, int64_t token, int64_t slot);

// Row i: the sum over slots j of WEIGHTS[i, j] * Y[row_of(i, j)], in fp32, in the order of the
// slots, of the choices that have a row; rounded once. Without any it is zero, or undefined.
void weigh_rows(const Work& work, bool leaves_others, RowOfSlot row_of = row_by_table);

// How GPUs do it.
void describe_sums(const RoutedFields& fields);
std::string why_no_sums(const KernelOperands& on);
bool pass_sums(const KernelOperands& on);

}  // namespace stretto::tasks

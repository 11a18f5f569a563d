// What the tasks that make a partition in parts have in common.
#pragma once

#include "stretto/device/make_partition.h"
#include "tasks/work.h"

namespace stretto::tasks {

// The choices of some rows of ids, one behind the other, by the experts that the rank has: all, or
// its share. `own` says how many these are.
device::Choices<int32_t> choices_of(const Work& work, const Operand& ids, int32_t own);

// Why a rank that has this share of the experts cannot have so many columns or rows of counts: one
// for each of its experts, and one for bad ids. Empty: it can.
TaskFault fault_in_counts(const KindOperands& of, const Region& counts, int64_t found);

// Of PARTS: a row for each part, of so many numbers.
device::PartCounts counts_of_parts(const Operand& parts);

}  // namespace stretto::tasks

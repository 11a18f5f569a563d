// Tasks of rows that choose experts, and sums beside them, as those of a mover kernel's table.
#pragma once

#include <vector>

#include "launch/choice_rows.h"
#include "plan/tile_task.h"
#include "tables/mover_tasks.h"

namespace stretto::cuda {

// `choices`: the plan's.
device::MoverTask routed_task(const TableBasis& basis, const ChoiceRows& choices,
                              const Instr& instr, MoverTable& table, LaneHazards& hazards);

// Whether some task of the table's from number `first` on makes a partition: that takes the ring's
// memory, so the other tasks of its block do without.
bool makes_partition(const MoverTable& table, size_t first);
void keep_off_the_ring(std::vector<device::MoverTask>& tasks);
// Where no task of the block takes the ring's memory, sums from number `first` on do.
void stage_sums(const std::vector<device::MoverTask>& tasks, MoverTable& table, size_t first);

}  // namespace stretto::cuda

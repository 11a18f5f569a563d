// Collectives between kernels that blocks of another product await inside a kernel.
#pragma once

#include "stretto/schedule.h"

namespace stretto {

// The SMs that collectives have to themselves, where the schedules that make them set so many
// aside: one at least where blocks may hold all others while they wait for what a collective
// brings, or for peers beside one; and where a kernel of the graph's makes one, an SM for each of
// its blocks, so that these may wait for each other. Such blocks are
//   - blocks of a product with flags or counters that waits inside its kernel for what a collective
//     with sync=event brings, which starts between kernels: for its input, and so the stages over
//     rows behind it, and for all that is added to its sums;
//   - tiles that await what another segment makes of a collective's rows, as behind a product's own
//     edge (NAME.in) or an all-to-all of columns;
//   - blocks of a product with flags or counters beside a collective that nothing orders with them.
//     On one rank the collective may have taken the SMs of blocks that another's wait for, and wait
//     itself for its part there, which finds no SM.
int sms_for_collectives(const Operator& op, const OperatorSchedule& schedule, int set_aside);

// Of the graph's kernels that schedules take the most blocks; 0: they take none.
int most_kernel_blocks(const Operator& op, const OperatorSchedule& schedule);

}  // namespace stretto

// Kinds of tasks of rows that choose experts, and sums beside them, which add warps of movers do by
// tables of the run: as the row of the kind says (src/tasks/routed_kernel.h).
#pragma once

#include <string>

#include "stretto/plan.h"
#include "tasks/routed_kernel.h"

namespace stretto::cuda {

// Of a kind that they do.
const tasks::RoutedKernel& routed_kernel_of(Opcode op);
// Whether the add warps do such tasks by tables of the run, in plans with tables.
bool is_routed_move(Opcode op);
// Of these, whether it stores its rows by choice where they are handed over so.
bool stores_by_choice(Opcode op);

// Why no mover does it; empty when one does.
std::string why_no_routed_task(const Plan& plan, const Instr& instr);

}  // namespace stretto::cuda

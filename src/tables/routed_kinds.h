// Kinds of tasks of rows that choose experts, and sums beside them, which add warps of movers do by
// tables of the run.
#pragma once

#include <cstddef>
#include <string>

#include "stretto/device/mover_task.h"
#include "stretto/plan.h"

namespace stretto::cuda {

// What the kernel of rows has for a kind of task, and which of its regions rows are moved from.
struct RoutedRow {
  Opcode op;
  device::RoutedKind kind;
  size_t source;
};

// Of a kind that there is.
const RoutedRow& routed_row_of(Opcode op);
// Whether the add warps do such tasks by tables of the run, in plans with tables.
bool is_routed_move(Opcode op);

// Why no mover does it; empty when one does.
std::string why_no_routed_task(const Plan& plan, const Instr& instr);

}  // namespace stretto::cuda

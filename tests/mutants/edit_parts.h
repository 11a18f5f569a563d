// What an edit does, by the part of a plan that it is of.
#pragma once

#include "mutants/edits.h"

namespace stretto::mutants {

// The regions of a task or collective.
void apply_to_task(Plan& plan, const Edit& edit, Instr& instr);
// A whole lane, or boundaries of all lanes of a rank.
void apply_to_lane(Plan& plan, const Edit& edit);
// Buffers and arrays of signals.
void apply_to_declarations(Plan& plan, const Edit& edit);
// Waits and notifies, and the number of a collective.
void apply_to_sync(Plan& plan, const Edit& edit, Instr& instr, uint16_t lane_rank);

}  // namespace stretto::mutants

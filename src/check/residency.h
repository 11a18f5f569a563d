// Blocks that wait must be resident together with the blocks they wait for.
#pragma once

#include "check/counters.h"
#include "check/findings.h"
#include "check/instr_index.h"
#include "stretto/plan.h"

namespace stretto::checker {

// A rank with at most plan.sms block lanes (compute and comm) keeps them all resident. With more,
// the first sms of them, in any choice, may hold every SM; that is fine as long as one SM is always
// held by a lane that ends without the help of a lane that is not resident. So a rank is reported
// when it has more block lanes than SMs and at least as many as SMs wait, in the same run and
// directly or through other lanes, for another block lane of the rank. Waits with lag do not count
// (the runs before have ended on this rank), nor do boundaries (a kernel's blocks leave their SMs).
// Lanes are taken as wholes: a lane that waits anywhere counts as needing all that it waits for.
void check_residency(const Plan& plan, const InstrIndex& index, const Counters& counters,
                     Findings& findings);

}  // namespace stretto::checker

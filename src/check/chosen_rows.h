// Rows that are there only where a run's choices say so.
#pragma once

#include "check/findings.h"
#include "stretto/plan.h"

namespace stretto::checker {

// Reports tasks that take all rows of a place of which only those that tokens choose are written:
// by the caller, who gives a rank no more of rows by choice than its experts', by a dispatch, or by
// a combine. Which rows those are only a run says, so regions do not show it. Unless the plan is a
// fragment, its operator says what the caller gives.
void check_chosen_rows(const Plan& plan, bool is_fragment, Findings& findings);

}  // namespace stretto::checker

// Ranks must agree about collectives, and the compute lanes of a rank about boundaries.
#pragma once

#include "check/findings.h"
#include "stretto/plan.h"

namespace stretto::checker {

// Every rank runs the same collectives in the same order on the same lanes, each once, with regions
// whose shapes pair up; all compute lanes of a rank pass the same boundaries in the same order.
// False when they do not: then there is no execution to speak of.
bool check_agreement(const Plan& plan, Findings& findings);

}  // namespace stretto::checker

// What is wrong with the regions that one task reads and writes.
#pragma once

#include <string>

#include "stretto/plan.h"

namespace stretto {

// By the rules of stretto/plan.h: what is expected and what was found instead; empty when nothing
// is wrong. `instr` is one that reads or writes, on a lane that can run it.
std::string fault_in_operands(const Plan& plan, const Lane& lane, const Instr& instr);

}  // namespace stretto

// Operands of the collectives that go by ids, dispatch and combine: docs/plan-format.md, "Routing".
#pragma once

#include <string>

#include "stretto/plan.h"

namespace stretto {

// What they say of the collective. Sound where fault_in_chosen() finds nothing.
struct ChosenOperands {
  int64_t tokens = 0, top_k = 0, cols = 0, experts = 0;
  bool by_choice = false;   // its rows at experts are one for each choice, not for each token
  bool round_trip = false;  // a combine of own rows, which go to the experts first

  bool operator==(const ChosenOperands&) const = default;
};
ChosenOperands chosen_operands(const Plan& plan, const Instr& instr);

// Whether it is the one that counts ids that are no expert's: the first that sees them, where no
// partition does.
bool counts_bad_ids(const Plan& plan, const Instr& instr);

// The share of the tokens that go from a rank to another, if all experts are as likely.
double share_that_goes(const ChosenOperands& of, int ranks);

// What is wrong with those of an instruction that is one, on the lane; empty: nothing.
std::string fault_in_chosen(const Plan& plan, const Lane& lane, const Instr& instr);

}  // namespace stretto

// Operands of the collectives that go by ids: docs/plan-format.md, "Routing".
#pragma once

#include <string>

#include "stretto/plan.h"

namespace stretto {

// What they say of the collective. Sound where fault_in_chosen() finds nothing.
struct ChosenOperands {
  int64_t tokens = 0, top_k = 0, cols = 0, experts = 0;
  bool of_all_experts = false;  // each rank has a part of every expert
  bool by_choice = false;       // its rows at experts are one for each choice, not for each token
  bool round_trip = false;      // a combine of own rows, which go to the experts first

  // Of the experts that a rank has, or has a part of: the first, and how many.
  int32_t first_expert(int rank, int ranks) const;
  int32_t experts_on(int rank, int ranks) const;
  bool operator==(const ChosenOperands&) const = default;
};
ChosenOperands chosen_operands(const Plan& plan, const Instr& instr);

// What a dispatch writes; null: not that. Rows by choice have COUNTS or nothing beside them. Rows
// by token have all IDS, and WEIGHTS behind them where these came along; where none did, IDS stand
// ahead of rows, so that nobody takes them for COUNTS.
struct Dispatched {
  const Region* rows = nullptr;
  const Region* ids = nullptr;
  const Region* weights = nullptr;
  const Region* counts = nullptr;
};
Dispatched dispatched(const Plan& plan, const Instr& instr);

// Whether it counts ids that are no expert's: the first that sees them, of all or of a part of the
// rows, where no partition does.
bool counts_bad_ids(const Plan& plan, const Instr& instr);

// The shares of the tokens that go from a rank to another, and of the choices whose expert a rank
// has, if all experts are as likely.
double share_that_goes(const ChosenOperands& of, int ranks);
double share_of_choices(const ChosenOperands& of, int ranks);

// What is wrong with those of an instruction that is one, on the lane; empty: nothing.
std::string fault_in_chosen(const Plan& plan, const Lane& lane, const Instr& instr);

}  // namespace stretto

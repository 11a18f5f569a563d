// Two plans that take turns on the same memory with a fence between their runs, proved as the one
// plan that they are together. The fence is a plan, too, or any that lies elsewhere and is as good.
#pragma once

#include <cstdint>
#include <vector>

#include "stretto/check.h"
#include "stretto/plan.h"

namespace stretto::checker {

// One run of `first`, the fence, one of `second`, the fence again, as a run of one plan. A rank's
// runs follow one another, as its stream orders them: signals of its own say so here.
struct Turns {
  enum class Of : uint8_t { first, second, fence };
  Plan plan;
  std::vector<Of> lanes;  // by lane: whose it is
};
Turns in_turns(const Plan& first, const Plan& second, const Plan& fence);

// What check() says of it; and every access of one plan to memory that ranks share must come before
// every access of the other's next run to it, wherever in that memory the two lie. Memory that no
// other rank reaches is each plan's own.
CheckReport check_turns(const Turns& turns, const CheckOptions& options = {});

}  // namespace stretto::checker

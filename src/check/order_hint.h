// Says what would order two instructions of different lanes.
#pragma once

#include <string>
#include <vector>

#include "stretto/lower.h"
#include "stretto/plan.h"

namespace stretto::checker {

struct OrderHint {
  std::string signal;  // the counter that would do, "slots.5@3"; empty when there is none yet
  std::string hint;
  std::vector<InstrRef> named = {};  // the notify and the wait that the hint is about
};

// `after` should come after `before`, of the run `lag` runs earlier.
OrderHint order_hint(const Plan& plan, InstrRef before, InstrRef after, int lag);

}  // namespace stretto::checker

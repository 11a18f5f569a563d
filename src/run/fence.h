// What stands between runs of different plans on the same memory: a plan of its own, in which every
// rank tells every other that it has come, and waits for all. So who has passed it knows that all
// ranks have ended what they did before.
#pragma once

#include "stretto/plan.h"

namespace stretto::runtime {

// One communication block a rank. `op` says how many ranks there are.
Plan fence_plan(const Operator& op, int sms);

}  // namespace stretto::runtime

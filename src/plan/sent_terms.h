// Which products a sum of all ranks takes, and how often each goes to other ranks.
#pragma once

#include <vector>

#include "stretto/plan.h"

namespace stretto {

// By buffer: times_sent() of what lies there, 0 where no sum of all ranks takes it.
std::vector<double> times_sent(const Plan& plan);

}  // namespace stretto

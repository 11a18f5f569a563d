// What of a plan lies in memory that ranks share.
#pragma once

#include <vector>

#include "stretto/plan.h"

namespace stretto {

// By buffer: whether a rank reaches another's, or may, as symmetric ones say.
std::vector<bool> shared_buffers(const Plan& plan);

}  // namespace stretto

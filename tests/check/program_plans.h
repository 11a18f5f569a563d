// Plans of every operator that is shipped, under every preset that serves it, on few SMs.
#pragma once

#include <functional>
#include <string>

#include "stretto/plan.h"

namespace stretto {

// With the name of each. Of so many ranks.
void for_each_program_plan(
    int ranks, const std::function<void(const std::string& name, const Plan& plan)>& visit);

}  // namespace stretto

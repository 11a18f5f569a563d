// Operators of several products: whether what is fastest for each of them is so for all.
#pragma once

#include "stretto/tune.h"

namespace stretto {

// `alone`, or a preset for all products that the simulation finds clearly faster than these
// together. `alone` was chosen product by product, by measurements too, and stays where it is near.
AutoSchedules fastest_together(const Operator& op, const Machine& machine, RowCount rows,
                               AutoSchedules alone);

}  // namespace stretto

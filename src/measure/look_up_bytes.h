// What pooled look-ups read at least.
#pragma once

#include "stretto/operator.h"

namespace stretto::runtime {

// By the rank that has most of the tables: the indices of bags that are as long as they can be, and
// of the rows that these pick at random each that is picked, once. 0: nothing is looked up.
double look_up_bytes(const Operator& op);

}  // namespace stretto::runtime

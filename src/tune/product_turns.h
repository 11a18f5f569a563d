// Which products of an operator a walk changes one after the other.
#pragma once

#include <vector>

#include "stretto/operator.h"

namespace stretto {

// Numbers of products, in the order of the segments: those of a turn get another schedule together.
// Each is a turn by itself. Of operators of many products, whose simulations are as much longer,
// those that are alike are one, and of these only the turns with most to compute.
std::vector<std::vector<size_t>> product_turns(const Operator& op);

}  // namespace stretto

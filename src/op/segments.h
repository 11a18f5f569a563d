// cut_segments: which stages run between two edges, and which edges stand at a product.
#pragma once

#include <string>
#include <vector>

#include "stretto/operator.h"

namespace stretto {

// Fills op.segments from its stages. What no schedule serves is added to `reasons`.
void cut_segments(Operator& op, std::vector<std::string>& reasons);

}  // namespace stretto

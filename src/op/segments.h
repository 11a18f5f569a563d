// cut_segments: which stages run between two edges, and which edges stand at a product.
#pragma once

#include "op/binding.h"

namespace stretto {

// Fills the graph's segments from its stages, of a text without faults. What no schedule serves is
// refused where it stands.
void cut_segments(Binding& binding);

}  // namespace stretto

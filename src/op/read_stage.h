// A stage's line behind NAME =.
#pragma once

#include <optional>

#include "op/graph_uses.h"

namespace stretto {

// Nothing where it has a fault; what it can be seen to need is told to `uses` anyway.
std::optional<StageText> read_stage(GraphWords& words, GraphUses& uses);

}  // namespace stretto

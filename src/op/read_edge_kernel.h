// A graph's line that names a kernel of the user's own: kernel NAME EDGE "HEADER" attributes.
#pragma once

#include <optional>

#include "op/graph_words.h"

namespace stretto {

// Nothing where the line is refused.
std::optional<EdgeKernelText> read_edge_kernel(GraphWords& words);

}  // namespace stretto

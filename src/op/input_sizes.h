// How large the values of a graph's weights are to be in tests.
#pragma once

#include "stretto/operator.h"

namespace stretto {

// Sets the weights' `values`, so that no tensor grows or shrinks from stage to stage, however many
// there are.
void set_input_sizes(Operator& op);

}  // namespace stretto

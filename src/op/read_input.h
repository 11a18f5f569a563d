// An input's line behind its name.
#pragma once

#include "op/graph_words.h"

namespace stretto {

// False where its shape cannot be read. What else cannot, the input says that it does not know.
bool read_input(GraphWords& words, InputText& input);

}  // namespace stretto

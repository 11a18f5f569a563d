#pragma once

#include <string>

namespace stretto {

// "ranks 1, 3, 5": of a team of `size` ranks from `start` on, `stride` apart.
std::string ranks_text(int start, int stride, int size);

}  // namespace stretto

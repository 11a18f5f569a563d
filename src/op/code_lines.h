// Which lines of a C++ text are code where they begin, so that a directive there is one.
#pragma once

#include <string_view>
#include <vector>

namespace stretto {

// One for each line, and one for what follows the last end of a line: false where it begins in a
// comment or a string, or goes on with the line before it (which ends with '\').
std::vector<bool> begin_as_code(std::string_view text);

}  // namespace stretto

// What a compiler's report says first.
#pragma once

#include <string>
#include <string_view>

namespace stretto {

// In one line: the first of its errors, and how many more there are, or what else it says.
// `folder`: where files lie that the user does not know, whose names begin behind it; of an error
// in one of these, the user's line that has led there follows.
std::string first_compile_error(std::string_view report, std::string_view folder = {});

}  // namespace stretto

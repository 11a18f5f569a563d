// A word of the line that is not among many known ones.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace stretto::cli {

// "unknown verb 'simulat': did you mean 'simulate', 'launch' or 'plan'?"
std::string unknown_of_many(std::string_view what, std::string_view word,
                            std::span<const std::string> known);

}  // namespace stretto::cli

// What a word that is not known may have meant.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace stretto {

// " (did you mean 'tiles'?)"; empty where no known word is near.
std::string meant(std::string_view word, std::span<const std::string_view> known);

}  // namespace stretto

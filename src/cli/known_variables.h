// The environment variables that Stretto reads and that are set.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stretto::cli {

struct KnownVariable {
  std::string name, meaning, value;  // of a secret "(hidden)"; empty: it is not set
};
std::vector<KnownVariable> known_variables();
// Those that are set.
std::vector<KnownVariable> set_variables();

}  // namespace stretto::cli

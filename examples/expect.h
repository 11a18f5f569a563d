// What an example claims, held while it runs.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>

namespace stretto {

inline void expect(bool condition, const std::string& claim) {
  if (!condition) throw std::runtime_error("not so: " + claim);
}

// Runs the example; a broken claim or an error becomes one line and a failing exit code.
template <typename Example>
int run_example(const Example& example) {
  try {
    example();
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}

}  // namespace stretto

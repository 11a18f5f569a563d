// Structs of callers that were compiled with another version of stretto/c.h. They begin with their
// size, and grow at their end only; what an older one lacks is 0, which means as if it had not been
// there.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstring>
#include <string_view>
#include <type_traits>

#include "c/boundary.h"

namespace stretto::c {

// What a struct is called in the header, and how large its first version was.
struct Layout {
  std::string_view type;
  size_t first_size;
};

// The struct as this library knows it; throws UsageError, in which `name` is the argument.
template <typename T>
T sized(const T* given, std::string_view name, const Layout& layout) {
  static_assert(std::is_trivially_copyable_v<T> && offsetof(T, size) == 0);
  const size_t size = require(given, name).size;
  if (size > sizeof(T)) {
    throw UsageError(
        fmt::format("{}.size is {}, and this library knows {} bytes of {}: it is older than the "
                    "header of its caller; take a newer library",
                    name, size, sizeof(T), layout.type));
  }
  if (size < layout.first_size) {
    throw UsageError(fmt::format("{0}.size is {1}; it must be sizeof({2}), here {3}", name, size,
                                 layout.type, sizeof(T)));
  }
  T known{};
  std::memcpy(&known, given, size);
  return known;
}

// What a function fills in, back to a caller who may know less of it.
template <typename T>
void give(const T& known, T* to) {
  std::memcpy(to, &known, to->size);
}

}  // namespace stretto::c

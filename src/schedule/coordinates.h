// The text names of each coordinate's values, by enumerator, and in which schedules are apart.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "stretto/schedule.h"

namespace stretto {

template <typename Enum>
std::span<const std::string_view> names_of();

#define STRETTO_NAMES(type, ...) \
  template <>                    \
  std::span<const std::string_view> names_of<type>();
STRETTO_CHOICES(STRETTO_NAMES)
STRETTO_NAMES(DType)
#undef STRETTO_NAMES

// Whether they agree in every coordinate in which schedules are apart (STRETTO_COORDINATES).
bool are_of_a_kind(const Schedule& a, const Schedule& b);

template <typename Enum>
std::optional<Enum> value_of(std::string_view text) {
  const std::span<const std::string_view> names = names_of<Enum>();
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == text) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

}  // namespace stretto

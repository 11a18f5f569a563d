// The text names of each coordinate's values, by enumerator.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "stretto/schedule.h"

namespace stretto {

template <typename Enum>
std::span<const std::string_view> names_of();

template <>
std::span<const std::string_view> names_of<Granularity>();
template <>
std::span<const std::string_view> names_of<Order>();
template <>
std::span<const std::string_view> names_of<Mover>();
template <>
std::span<const std::string_view> names_of<Sync>();
template <>
std::span<const std::string_view> names_of<Reduction>();
template <>
std::span<const std::string_view> names_of<Reuse>();
template <>
std::span<const std::string_view> names_of<RowCount>();
template <>
std::span<const std::string_view> names_of<GemmBy>();
template <>
std::span<const std::string_view> names_of<CollectivesBy>();
template <>
std::span<const std::string_view> names_of<DType>();

template <typename Enum>
std::optional<Enum> value_of(std::string_view text) {
  const std::span<const std::string_view> names = names_of<Enum>();
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == text) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

}  // namespace stretto

// What becomes of a schedule's algorithm where cuBLAS proposes fewer than it was chosen from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "stretto/tune.h"

namespace stretto {

// Who names an algorithm means it; `auto` names what was the fastest with the cuBLAS that was
// measured, and another version may propose fewer.
enum class IfNotProposed : uint8_t { refuse, take_first };

// A product of an operator whose schedule asks for an algorithm that some rank's cuBLAS does not
// propose.
struct NotProposed {
  size_t product = 0;  // of OperatorSchedule::products
  int asked = 0, proposed = 0;
  bool operator==(const NotProposed&) const = default;
};

// By product: the algorithm that a schedule asks for, and how many cuBLAS proposes on the rank
// where these are the fewest.
std::vector<NotProposed> not_proposed(std::span<const int> asked, std::span<const int> proposed);
// For people, and what would be right. A product has a name where there are several.
std::string why_not_proposed(const NotProposed& one, const std::vector<std::string>& names);

// The same choice with the first of so many for these products; its reason says so.
AutoSchedules with_first_algorithms(AutoSchedules chosen, std::span<const NotProposed> of);

}  // namespace stretto

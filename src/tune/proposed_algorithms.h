// What becomes of a schedule's algorithm where cuBLAS proposes fewer than it was chosen from.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "stretto/tune.h"

namespace stretto {

// Who names an algorithm means it; `auto` names what was the fastest with the cuBLAS that was
// measured, and another version may propose fewer.
enum class IfNotProposed : uint8_t { refuse, take_first };

// The algorithm that multiplies on all ranks, where cuBLAS proposes so many for every product of a
// plan that asks for number `asked`; nothing where that is refused.
std::optional<int> algorithm_to_take(int asked, int proposed, IfNotProposed otherwise);
// For people, and what would be right.
std::string why_not_proposed(int asked, int proposed);

// The same choice with the first of so many; its reason says so.
AutoSchedule with_first_algorithm(AutoSchedule chosen, int proposed);

}  // namespace stretto

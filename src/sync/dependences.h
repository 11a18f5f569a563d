// Dependences between the instructions of a sequential program, found by region intersection.
#pragma once

#include <vector>

#include "stretto/lower.h"

namespace stretto {

// Instructions are named by their position in Draft::program.
struct Dependence {
  uint32_t before = 0;  // writes what `after` reads or overwrites, or reads what it overwrites
  uint32_t after = 0;
  uint16_t buffer = 0;  // where they meet

  bool operator==(const Dependence&) const = default;
};

// Every pair of instructions of different lanes that touch one place, at least one of them writing,
// in program order; sorted by (after, before), without repetitions.
std::vector<Dependence> find_dependences(const Draft& draft);

}  // namespace stretto

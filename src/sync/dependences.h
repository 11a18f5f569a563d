// Dependences between the instructions of a sequential program, found by region intersection.
#pragma once

#include <optional>
#include <vector>

#include "stretto/lower.h"
#include "sync/alike_ranks.h"

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
struct Dependences {
  std::vector<Dependence> all;
  // Where ranks are alike, `all` is those on which rank 0's instructions depend: the others are
  // their images.
  std::optional<AlikeRanks> alike;
};

Dependences find_dependences(const Draft& draft, bool use_alike = true);

// Of all ranks' instructions, in no order.
std::vector<Dependence> of_all_ranks(const Dependences& dependences);

}  // namespace stretto

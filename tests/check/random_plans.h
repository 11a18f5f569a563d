// Small random plans: tasks at random, signals placed by place_signals, and changes to them.
#pragma once

#include <random>
#include <string>

#include "stretto/plan.h"

namespace stretto {

using Random = std::mt19937;

inline int pick(Random& random, int count) {
  return static_cast<int>(random() % static_cast<unsigned>(count));
}

// Two or three ranks with few lanes that copy between few places; correctly synchronised.
Plan random_plan(Random& random);

// Deletes, moves or changes one wait or notify, or swaps two neighbours. Returns what was done.
std::string change(Plan& plan, Random& random);

}  // namespace stretto

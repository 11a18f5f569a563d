// What of the word `fused` a GPU cannot do.
#pragma once

#include <string>
#include <vector>

#include "plan/tile_task.h"

namespace stretto {

// A task that cannot go on with what the one before it has left in registers; `what` as other
// faults say it.
struct FusedFault {
  InstrRef where;
  std::string what;
};

struct LaneTile {
  uint32_t lane = 0;
  Tile tile;
};

// Those of all lanes as the words have it, and what is wrong with the words: as far as one lane
// tells, in the order of the plan.
struct LaneTiles {
  explicit LaneTiles(const Plan& plan);

  std::vector<LaneTile> tiles;  // in the order of the plan; only those with fused tasks
  std::vector<FusedFault> faults;
};

// What else is wrong: what stays in registers is not in memory, where another task looks for it, or
// is told of later than somebody waits for it. `tiles` are the plan's, and have no faults.
std::vector<FusedFault> faults_of_memory(const Plan& plan, const std::vector<LaneTile>& tiles);

}  // namespace stretto

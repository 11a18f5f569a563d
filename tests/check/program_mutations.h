// Single changes to what ranks enqueue.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "launch/rank_program.h"
#include "stretto/plan.h"

namespace stretto {

struct ProgramMutation {
  std::string what;   // "rank 0 stream 1 step 2: drop await"
  std::string kind;   // "drop await"
  bool harms = true;  // otherwise what was proved still holds
  std::function<void(std::vector<cuda::RankProgram>&)> apply;
};

// Of steps: each left out, enqueued elsewhere, exchanged with the next, or put on a stream of its
// own, where that one has to stand before or behind it. Of blocks: each left out, doubled, cut
// short or in two, or without a wait at its end. Of events: awaited before they are recorded. And
// such as do no harm: waits made by other blocks, or behind the kernel.
std::vector<ProgramMutation> mutations_of(const Plan& plan,
                                          const std::vector<cuda::RankProgram>& programs);

}  // namespace stretto

// Reads of which nothing depends that other reads of their lane, or boundaries, do not order.
#pragma once

#include <vector>

#include "stretto/lower.h"
#include "sync/program_tasks.h"

namespace stretto {

// They are these:
// - Of a lane's reads of one region between two writes of the buffer, all but the first and the
//   last: what the first waits for has come, and who waits for the last waits for those before it.
//   A product that reads all tokens for every tile would else depend on each piece of them anew.
// - Reads by compute lanes of what only compute lanes of their rank write, in other kernels.
class ImpliedReads {
 public:
  ImpliedReads(const Draft& draft, const std::vector<TaskOperands>& tasks);

  // `region`: an operand of the plan.
  bool has(const Region& region) const {
    return !implied_.empty() && implied_[static_cast<size_t>(&region - operands_)];
  }

 private:
  const Region* operands_;
  std::vector<bool> implied_;  // by operand
};

}  // namespace stretto

// Blocks that keep their SMs while they wait.
#pragma once

#include <cstdint>
#include <vector>

#include "stretto/plan.h"

namespace stretto::checker {

// A block in one kernel, and the waits in which it keeps its SM there, ascending.
struct Holder {
  uint32_t lane;
  std::vector<uint32_t> waits;
};

// Of a rank: blocks of comm lanes, and those of compute lanes by kernel, which are cut at
// boundaries.
struct Holders {
  std::vector<Holder> comm;
  std::vector<std::vector<Holder>> compute;
  std::vector<std::vector<Holder>> in_gemm;  // with the waits that the GEMM makes alone
};

// Adds those of a block lane.
void add_holders(const Plan& plan, uint32_t lane, Holders& holders);

}  // namespace stretto::checker

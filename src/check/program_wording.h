// How diagnostics name the things of a program.
#pragma once

#include <cstdint>
#include <string>

#include "launch/rank_program.h"
#include "stretto/plan.h"

namespace stretto::checker {

// A step of a stream of a rank's program.
struct StepPlace {
  uint32_t stream = 0, step = 0;
  bool operator==(const StepPlace&) const = default;
};

// "rank 0 stream 1 step 3 (move kernel 2)"; steps of a stream are counted from 0.
std::string at(const Plan& plan, const cuda::RankProgram& program, size_t rank, StepPlace place);

}  // namespace stretto::checker

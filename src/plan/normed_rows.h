// Rows that a task of a mover norms, with the sum that makes them or without.
#pragma once

#include <string>

#include "stretto/plan.h"

namespace stretto {

// Bytes of a row that a mover keeps from its sum to its norm.
inline constexpr uint32_t kMostBytesKept = 16384;

// `norm` reads them and a row of weights. `sum`, if any, is the reduce or restore before it that
// makes them, which the same task then does.
struct NormedRows {
  const Instr* sum = nullptr;
  const Instr* norm = nullptr;
  float epsilon = 0;
};

// What the task that begins with the instruction at `at` of a lane norms: the rows of a norm, or of
// the sum that a fused norm follows. No norm: it is another task.
NormedRows rows_normed_at(const Lane& lane, uint32_t at);
// Why no task of a GPU can; empty when one can. With a sum they may still be two tasks.
std::string why_no_norm(const Plan& plan, const NormedRows& rows);
// Why the norm at `at` of the lane is no part of the task before it; empty when it may be.
std::string why_not_with_sum(const Plan& plan, const Lane& lane, uint32_t at);

}  // namespace stretto

// Definitions that work on one row of the result after the other, in fp32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tasks/elements.h"
#include "tasks/work.h"

namespace stretto::tasks {

// A row of what is read, in fp32, in `space`.
inline float* wide_row(const Operand& read, int64_t row, std::vector<float>& space) {
  const auto cols = static_cast<size_t>(read.cols);
  space.resize(cols);
  widen(read.view.dtype, read.row(row), space.data(), cols);
  return space.data();
}

inline void round_row(const Work& work, int64_t row, const float* values) {
  round_elements(work.to.dtype, values, work.row(row), static_cast<size_t>(work.cols));
}

// Y = f(X), element by element.
template <typename Function>
void map_elements(const Work& work, const Function& f) {
  for (int64_t row = 0; row < work.rows; ++row) {
    float* const x = wide_row(work.reads[0], row, work.scratch.sums);
    for (int64_t col = 0; col < work.cols; ++col) x[col] = f(x[col]);
    round_row(work, row, x);
  }
}

}  // namespace stretto::tasks

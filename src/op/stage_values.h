// What stages make of exact values and of how far an implementation may be from them.
#pragma once

#include <cstdint>
#include <vector>

#include "stretto/operator.h"
#include "stretto/reference.h"

namespace stretto {

// Some rows of a tensor, all its columns: exact values, and for each the largest error of a right
// implementation.
struct Rows {
  int64_t rows = 0, cols = 0;
  std::vector<double> values, errors;
  bool is_exact = true;  // all errors are 0

  Rows() = default;
  Rows(int64_t num_rows, int64_t num_cols)
      : rows(num_rows),
        cols(num_cols),
        values(static_cast<size_t>(num_rows * num_cols)),
        errors(values.size()) {}
  size_t at(int64_t row, int64_t col) const { return static_cast<size_t>(row * cols + col); }
};

// Terms of a sum are what `shares` ranks have, each rounded on its way as `roundings` says.
// B is a matrix of a stack, from row `b_row` of all of them on.
Rows gemm_rows(const Operator& op, const InputData& data, const Rows& a, int b, int64_t shares,
               const Roundings& roundings, int64_t b_row = 0);
// The result of any other stage.
Rows stage_rows(const Stage& stage, const Rows& x, const Rows* y);
// Rounds them to a type.
void round_rows(DType dtype, Rows& rows);

}  // namespace stretto

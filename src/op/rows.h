// Some rows of a tensor, with how far a right implementation may be from them.
#pragma once

#include <cstdint>
#include <vector>

#include "op/error_bound.h"
#include "stretto/dtype.h"

namespace stretto {

// All columns of the rows. An element's error is as good as random: `variances` holds its mean
// square, `errors` the largest that is taken for right: some roots of that at most, eight where
// products before it were few.
struct Rows {
  int64_t rows = 0, cols = 0;
  std::vector<double> values, errors, variances;
  // Tensors whose own errors are part of these, element by element; sorted. Errors of tensors that
  // share none are independent.
  std::vector<int> sources;
  // Weights that the rows have been multiplied with, sorted; whether with any of them twice.
  std::vector<int> weights;
  bool repeats_weights = false;
  // Implementations have infinities of what is not smaller.
  double range = 0x1p128;
  // Of products that are exact integers, and of which ranks have terms, what these are. `weigh`
  // makes sums of them that ranks round, so it counts that.
  struct Terms {
    double magnitude = 0, squares = 0;
  };
  std::vector<Terms> terms;  // by element, or none
  // By row, or of none: an infinity may have come into it on the way, so that anything is right.
  std::vector<bool> is_lost;

  Rows() = default;
  Rows(int64_t num_rows, int64_t num_cols)
      : rows(num_rows),
        cols(num_cols),
        values(static_cast<size_t>(num_rows * num_cols)),
        errors(values.size()),
        variances(values.size()),
        drifts_(static_cast<size_t>(rows)),
        deviations_(static_cast<size_t>(rows), kDeviations) {}
  size_t at(int64_t row, int64_t col) const { return static_cast<size_t>(row * cols + col); }

  // Every product makes a row's errors larger or smaller than their mean, all together, by a factor
  // that hangs on the weight. `drift`: the deviation of the logarithm of their squares.
  double drift(int64_t row) const { return drifts_[static_cast<size_t>(row)]; }
  void set_drift(int64_t row, double drift);
  // The largest that is taken for right.
  double largest_error(int64_t row, double variance) const;
  // Sets the error of an element of the row, after the row's drift: `largest`, or less.
  void set_error(int64_t row, size_t at, double largest, double variance);
  double all_variances(int64_t row) const;
  // Whether an implementation may have an infinity or a NaN there.
  bool loses(int64_t row) const;
  // What is made of rows that are lost is lost; x may be one row that goes with all of these.
  void lose_with(const Rows& x);
  void lose(int64_t row);
  // Adds what y is made of.
  void join(const Rows& y);
  // Has of x and y what is said of all their elements, and of their rows the larger drifts; y may
  // be null, or one row.
  void follow(const Rows& x, const Rows* y);

 private:
  std::vector<double> drifts_, deviations_;  // by row
};

// Sorted numbers and one more, which may be among them.
std::vector<int> with(const std::vector<int>& numbers, int one);
bool are_independent(const Rows& x, const Rows& y);

// Whether the number has so few bits that rounding to the type leaves it as it is.
bool is_of_type(DType dtype, double value);
// Rounds tensor `id` to a type.
void round_rows(DType dtype, int id, Rows& rows);

}  // namespace stretto

#include "op/stage_values.h"

#include <algorithm>
#include <cmath>

#include "op/error_bound.h"
#include "stretto/error.h"

namespace stretto {
namespace {

constexpr double kFp32 = 0x1p-24;  // unit roundoff
// Of an SiLU far below zero: fp32's exponentials end there.
constexpr double kVanishing = 0x1p-118;

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// A function of one element: its value, and its slope there.
struct Activated {
  double value = 0, slope = 0;
};

Activated silu(double x) {
  const double s = sigmoid(x);
  return {x * s, s * (1 + x * (1 - s))};
}

Activated gelu(double x) {
  constexpr double kRoot = 0.7978845608028654;  // of 2 / pi
  const double t = std::tanh(kRoot * (x + 0.044715 * x * x * x));
  return {0.5 * x * (1 + t),
          0.5 * (1 + t) + 0.5 * x * (1 - t * t) * kRoot * (1 + 3 * 0.044715 * x * x)};
}

// Neither is steeper than this.
constexpr double kSteepest = 1.13;
// Of both: slopes change no faster, so far from 0 or farther.
double bend(double distance) { return std::min(0.8, (2 + distance) * std::exp(-distance)); }

// An error of its argument x of at most so much grows at most by this.
double gain(const Activated& of, double x, double largest_error) {
  const double nearest = std::max(0.0, std::fabs(x) - largest_error);
  return std::min(kSteepest, std::fabs(of.slope) + bend(nearest) / 2 * largest_error);
}

double squared(double x) { return x * x; }

// Element by element: `visit` gets the row, and the indices in x and in y, whose one row may go
// with all rows.
template <typename Visit>
void for_each_element(const Rows& x, const Rows* y, const Visit& visit) {
  const bool is_row = y != nullptr && y->rows == 1 && x.rows != 1;
  for (int64_t row = 0; row < x.rows; ++row) {
    for (int64_t col = 0; col < x.cols; ++col) {
      visit(row, x.at(row, col), is_row ? y->at(0, col) : x.at(row, col));
    }
  }
}

// Both are products of one row, whose error along the row itself makes both larger or smaller:
// their errors are added as they are.
void multiply_gates(const Rows& g, const Rows& u, double approximation, Rows& out) {
  for_each_element(g, &u, [&](int64_t row, size_t at, size_t other) {
    const Activated gate = silu(g.values[at]);
    const double steepness = gain(gate, g.values[at], g.errors[at]),
                 magnitude = std::fabs(gate.value);
    const double value = std::fabs(u.values[other]), reached = value + u.errors[other];
    const double rounded = approximation * magnitude * value + kVanishing * reached;
    out.values[at] = gate.value * u.values[other];
    const double deviation = steepness * reached * std::sqrt(g.variances[at]) +
                             magnitude * std::sqrt(u.variances[other]);
    out.set_error(row, at,
                  steepness * g.errors[at] * reached + magnitude * u.errors[other] + rounded,
                  squared(deviation) + squared(rounded));
  });
}

void activate(StageKind kind, const Rows& x, double approximation, Rows& out) {
  for_each_element(x, nullptr, [&](int64_t row, size_t at, size_t) {
    const Activated of = kind == StageKind::gelu ? gelu(x.values[at]) : silu(x.values[at]);
    const double steepness = gain(of, x.values[at], x.errors[at]);
    const double rounded = approximation * (std::fabs(of.value) + 0x1p-2 * std::fabs(x.values[at]));
    out.values[at] = of.value;
    out.set_error(row, at, steepness * x.errors[at] + rounded,
                  squared(steepness) * x.variances[at] + squared(rounded));
  });
}

void add(const Rows& x, const Rows& y, Rows& out) {
  const bool apart = are_independent(x, y);
  for (int64_t row = 0; row < x.rows; ++row) {
    const int64_t y_row = y.rows == 1 ? 0 : row;
    const double of_x = x.all_variances(row), of_y = y.all_variances(y_row);
    const double drift = (of_x * x.drift(row) + of_y * y.drift(y_row)) / (of_x + of_y);
    if (of_x + of_y > 0) out.set_drift(row, drift);
  }
  for_each_element(x, &y, [&](int64_t row, size_t at, size_t other) {
    const double sum = x.values[at] + y.values[other];
    out.values[at] = sum;
    const bool are_exact = x.errors[at] == 0 && y.errors[other] == 0;
    if (are_exact && is_of_type(DType::fp32, sum)) return;
    const double largest = x.errors[at] + y.errors[other];
    const double of_x = x.variances[at], of_y = y.variances[other];
    const double deviation = apart ? std::sqrt(of_x + of_y) : std::sqrt(of_x) + std::sqrt(of_y);
    const double rounded = kFp32 * (std::fabs(sum) + largest);
    out.set_error(row, at, largest + rounded, squared(deviation) + squared(rounded) / 3);
  });
}

// An error of a row's scale is the same for all of its elements, so it is added as it is to that of
// each. No element of a normed row is farther from 0 than the root of their number.
void norm(const Stage& stage, const Rows& x, const Rows& weights, Rows& out) {
  const auto cols = static_cast<double>(x.cols);
  // Sums of squares are rounded on the way, the root and its products twice each.
  const double rounded = kFp32 * (4 + std::sqrt(cols) / 4);
  for (int64_t row = 0; row < x.rows; ++row) {
    double squares = 0, cross = 0, of_errors = 0;
    for (size_t at = x.at(row, 0); at < x.at(row, x.cols); ++at) {
      squares += squared(x.values[at]);
      cross += squared(x.values[at]) * x.variances[at];
      of_errors += x.variances[at];
    }
    const double mean = squares / cols + stage.eps;
    const double scale = 1 / std::sqrt(mean);
    // What errors move the mean by, as a part of it: a deviation, and the most.
    const double deviation = (2 * std::sqrt(cross) + of_errors) / cols / mean;
    const double most = (2 * kDeviations * std::sqrt(cross) + of_errors) / cols / mean;
    const bool is_known = most < 0.5;
    const double slope = is_known ? 0.5 * std::pow(1 - most, -1.5) : 0;
    const double relative = slope * most + kDeviations * rounded;
    for (int64_t col = 0; col < x.cols; ++col) {
      const size_t at = x.at(row, col);
      const double weight = std::fabs(weights.values[static_cast<size_t>(col)]);
      const double magnitude = std::fabs(x.values[at]), factor = weight * scale;
      out.values[at] = x.values[at] * scale * weights.values[static_cast<size_t>(col)];
      const double farthest = factor * magnitude + kSlack * weight * std::sqrt(cols);
      double largest = farthest, variance = squared(farthest);
      if (is_known) {
        largest =
            std::min(farthest, factor * (x.errors[at] * (1 + relative) + magnitude * relative));
        variance =
            std::min(variance, squared(factor * (std::sqrt(x.variances[at]) * (1 + relative) +
                                                 magnitude * (slope * deviation + rounded))));
      }
      out.set_error(row, at, largest, variance);
    }
  }
}

}  // namespace

Rows stage_rows(const Stage& stage, DType dtype, const Rows& x, const Rows* y) {
  Rows out(x.rows, x.cols);
  out.follow(x, y);
  switch (stage.kind) {
    case StageKind::swiglu:
      multiply_gates(x, *y, activation_roundoff(dtype), out);
      break;
    case StageKind::gelu:
    case StageKind::silu:
      activate(stage.kind, x, activation_roundoff(dtype), out);
      break;
    case StageKind::bias:
    case StageKind::add:
      add(x, *y, out);
      break;
    case StageKind::norm:
      norm(stage, x, *y, out);
      break;
    case StageKind::gather:
      return x;
    case StageKind::gemm:
      STRETTO_CASES_BY_IDS
      STRETTO_ASSERT(false, "what goes by indices is not made row by row");
  }
  return out;
}

}  // namespace stretto

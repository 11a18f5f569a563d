#include "op/rows.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "op/error_bound.h"

namespace stretto {

namespace {

std::vector<int> united(const std::vector<int>& a, const std::vector<int>& b) {
  std::vector<int> all;
  std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(all));
  return all;
}

// An element's error is a normal number times a factor, whose logarithm is another one times half
// the drift, and whose mean square is 1. The most that comes of pairs of normal numbers none of
// which is farther than kFarthest from 0.
double deviations_of(double drift, bool is_centred) {
  constexpr double kFarthest = 6;
  const double pull = kFarthest * drift / 2;
  if (pull < 1e-3) return kDeviations;
  const double sine = (std::sqrt(1 + 4 * pull * pull) - 1) / (2 * pull);
  const double exponent = pull * sine - (is_centred ? drift * drift / 4 : 0);
  const double most =
      kFarthest * std::sqrt(1 - sine * sine) * std::exp(std::clamp(exponent, -99.0, 99.0));
  return std::max(kDeviations, most);
}

}  // namespace

std::vector<int> with(const std::vector<int>& numbers, int one) { return united(numbers, {one}); }

void Rows::set_drift(int64_t row, double drift) {
  drifts_[static_cast<size_t>(row)] = drift;
  deviations_[static_cast<size_t>(row)] = deviations_of(drift, !repeats_weights);
}

void Rows::set_error(int64_t row, size_t at, double largest, double variance) {
  variances[at] = variance;
  errors[at] = std::min(largest, largest_error(row, variance));
}

double Rows::largest_error(int64_t row, double variance) const {
  return kSlack * deviations_[static_cast<size_t>(row)] * std::sqrt(variance);
}

double Rows::all_variances(int64_t row) const {
  double all = 0;
  for (size_t i = at(row, 0); i < at(row, cols); ++i) all += variances[i];
  return all;
}

bool Rows::loses(int64_t row) const {
  if (!is_lost.empty() && is_lost[static_cast<size_t>(row)]) return true;
  for (size_t i = at(row, 0); i < at(row, cols); ++i) {
    // Neither is so of a NaN.
    if (!(std::fabs(values[i]) + errors[i] < range)) return true;
  }
  return false;
}

void Rows::lose_with(const Rows& x) {
  for (int64_t row = 0; row < rows; ++row) {
    if (x.loses(x.rows == 1 ? 0 : row)) lose(row);
  }
}

void Rows::lose(int64_t row) {
  is_lost.resize(static_cast<size_t>(rows), false);
  is_lost[static_cast<size_t>(row)] = true;
}

void Rows::join(const Rows& y) {
  sources = united(sources, y.sources);
  weights = united(weights, y.weights);
  repeats_weights = repeats_weights || y.repeats_weights;
}

void Rows::follow(const Rows& x, const Rows* y) {
  join(x);
  lose_with(x);
  for (int64_t row = 0; row < rows; ++row) set_drift(row, x.drift(x.rows == 1 ? 0 : row));
  if (y == nullptr) return;
  join(*y);
  lose_with(*y);
  for (int64_t row = 0; row < rows; ++row) {
    set_drift(row, std::max(drift(row), y->drift(y->rows == 1 ? 0 : row)));
  }
}

bool are_independent(const Rows& x, const Rows& y) {
  return united(x.sources, y.sources).size() == x.sources.size() + y.sources.size();
}

bool is_of_type(DType dtype, double value) {
  int exponent = 0;
  const double scaled = std::frexp(value, &exponent) / unit_roundoff(dtype);
  return std::trunc(scaled) == scaled;
}

void round_rows(DType dtype, int id, Rows& rows) {
  const double unit = kSlack * unit_roundoff(dtype);
  const double tiny = subnormal_roundoff(dtype);
  bool any = false;
  const auto stays = [&](size_t i) {
    return rows.errors[i] == 0 && is_of_type(dtype, rows.values[i]);
  };
  const auto added = [&](size_t i) {
    const double value = rows.values[i];
    return (unit * unit * (value * value + rows.variances[i]) + tiny * tiny) / 3;
  };
  for (int64_t row = 0; row < rows.rows; ++row) {
    // Errors that are new have not been multiplied yet.
    double before = 0, all = 0;
    for (size_t i = rows.at(row, 0); i < rows.at(row, rows.cols); ++i) {
      before += rows.variances[i];
      all += rows.variances[i] + (stays(i) ? 0 : added(i));
    }
    if (before < all) rows.set_drift(row, rows.drift(row) * before / all);
    for (size_t i = rows.at(row, 0); i < rows.at(row, rows.cols); ++i) {
      if (stays(i)) continue;
      const double error = rows.errors[i];
      const double rounded = unit * (std::fabs(rows.values[i]) + error) + tiny;
      rows.set_error(row, i, error + rounded, rows.variances[i] + added(i));
      any = true;
    }
  }
  rows.range = least_infinite(dtype);
  if (any) rows.sources = with(rows.sources, id);
}

}  // namespace stretto

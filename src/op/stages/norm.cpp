// norm: the root mean square of every row.
#include <algorithm>
#include <cmath>

#include "op/stages/alike_rules.h"
#include "op/stages/elements.h"

namespace stretto {
namespace {

// A row's mean needs all of its columns.
StageRule norm_rule(const StageOperands& of) {
  return stages::rule_with_row(of, of.in[0]->held == Held::whole ? Held::whole : Held::rows,
                               Held::whole);
}

// An error of a row's scale is the same for all of its elements, so it is added as it is to that of
// each. No element of a normed row is farther from 0 than the root of their number.
void norm_rows(const Stage& stage, DType, const Rows& x, const Rows* y, Rows& out) {
  const Rows& weights = *y;
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

ValueSizes size_of_weights(const ValueSizes&, const ValueSizes& y, bool) {
  return {y.random, y.integer, false};
}

}  // namespace

const StageRow stages::norm{.rule = norm_rule,
                            .task = Opcode::norm,
                            .make = norm_rows,
                            .sizes = size_of_weights,
                            .on_gpus = device::StageOf::norm,
                            .has_parameter = true};

}  // namespace stretto

// add, bias: sums of two tensors, of which the second may be one row for all.
#include <cmath>

#include "op/stages/alike_rules.h"
#include "op/stages/elements.h"

namespace stretto {
namespace {

StageRule bias_rule(const StageOperands& of) {
  const Held held = stages::summed(of.in[0]->held);
  return stages::rule_with_row(of, held, held == Held::cols ? Held::cols : Held::whole);
}

void add_rows(const Stage&, DType, const Rows& x, const Rows* other_rows, Rows& out) {
  const Rows& y = *other_rows;
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

double root_of_squares(double a, double b) { return std::sqrt(a * a + b * b); }

ValueSizes size_of_sum(const ValueSizes& x, const ValueSizes& y, bool same) {
  const double twice = same ? std::sqrt(2) : 1;
  return {twice * root_of_squares(x.random, y.random),
          twice * root_of_squares(x.integer, y.integer), x.is_exact && y.is_exact};
}

}  // namespace

// Adding a residual is a reduce of two.
const StageRow stages::add{.rule = stages::binary_rule,
                           .task = Opcode::reduce,
                           .make = add_rows,
                           .sizes = size_of_sum,
                           .on_gpus = device::StageOf::sum};
const StageRow stages::bias{.rule = bias_rule,
                            .task = Opcode::bias,
                            .make = add_rows,
                            .sizes = size_of_sum,
                            .on_gpus = device::StageOf::sum,
                            .has_parameter = true,
                            .follows_tiles = true};

}  // namespace stretto

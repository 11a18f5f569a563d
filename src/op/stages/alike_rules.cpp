#include "op/stages/alike_rules.h"

#include <fmt/format.h>

#include "op/stage_faults.h"

namespace stretto::stages {

StageRule unary_rule(const StageOperands& of) {
  const Tensor& x = *of.in[0];
  return {x.rows, x.cols, summed(x.held), {summed(x.held)}, {}};
}

StageRule binary_rule(const StageOperands& of) {
  const Tensor &x = *of.in[0], &y = *of.in[1];
  Held held = Held::whole;
  const bool partial = x.held == Held::partial || y.held == Held::partial;
  const Held other = x.held == Held::partial ? y.held : x.held;
  if (partial) {
    held = summed(other);
  } else if ((x.held == Held::routed) != (y.held == Held::routed)) {  // where its tokens are
    held = x.held == Held::routed ? y.held : x.held;
    if (held == Held::whole) held = Held::rows;
  } else {
    held = x.held == Held::whole ? y.held : x.held;
  }
  StageRule rule{x.rows, x.cols, held, {held, held}, {}};
  if (x.rows != y.rows || x.cols != y.cols) {
    rule.fault = fmt::format("both operands have one shape: {} and {}", shape(x), shape(y));
  }
  return rule;
}

StageRule rule_with_row(const StageOperands& of, Held held, Held of_row) {
  const Tensor &x = *of.in[0], &row = *of.in[1];
  StageRule rule{x.rows, x.cols, held, {held, of_row}, {}};
  if (row.rows != 1 || row.cols != x.cols) {
    rule.fault = fmt::format("the second operand is one row of {} columns: {} and {}", x.cols,
                             shape(x), shape(row));
  }
  return rule;
}

}  // namespace stretto::stages

// gemm, and gather of what one gathers. Exact products are made in product_values.cpp.
#include <fmt/format.h>

#include "op/stage_faults.h"
#include "op/stages/stage_row.h"

namespace stretto {
namespace {

// The weight says what a rank computes: columns of the product, a term of it, or own rows of it.
StageRule gemm_rule(const StageOperands& of) {
  const Tensor &a = *of.in[0], &b = *of.in[1];
  StageRule rule{a.rows, b.rows, Held::whole, {}, {}};
  if (a.cols != b.cols) {
    rule.fault = fmt::format(
        "A and B of a gemm have as many columns (it multiplies by the "
        "transpose of B): {} and {}",
        shape(a), shape(b));
  }
  switch (b.held) {
    case Held::rows:
      rule.held = Held::cols;
      rule.needs = {Held::whole, Held::rows};
      break;
    case Held::cols:
      rule.held = Held::partial;
      rule.needs = {Held::cols, Held::cols};
      break;
    case Held::whole:
    case Held::partial:
    case Held::experts:
    case Held::routed:
      rule.held = a.held == Held::whole ? Held::whole : Held::rows;
      rule.needs = {rule.held, Held::whole};
      break;
  }
  return rule;
}

StageRule gather_rule(const StageOperands& of) {
  const Tensor& x = *of.in[0];
  StageRule rule{x.rows, x.cols, Held::whole, {Held::whole}, {}};
  if (x.held != Held::rows) {
    rule.fault = fmt::format("gather takes what ranks have by rows, and {} is {}", x.name,
                             to_string(x.held));
  }
  return rule;
}

void copy_rows(const Stage&, DType, const Rows& x, const Rows*, Rows& out) { out = x; }

}  // namespace

const StageRow stages::gemm{.rule = gemm_rule, .task = Opcode::gemm, .has_parameter = true};
const StageRow stages::gather{.rule = gather_rule,
                              .task = Opcode::copy,
                              .make = copy_rows,
                              .sizes = size_of_first,
                              .on_gpus = device::StageOf::rounded};

}  // namespace stretto

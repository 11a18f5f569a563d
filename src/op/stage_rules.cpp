#include "op/stage_rules.h"

#include <fmt/format.h>

#include "stretto/error.h"

namespace stretto {
namespace {

std::string shape(const Tensor& t) { return fmt::format("{} [{}, {}]", t.name, t.rows, t.cols); }

// The weight says what a rank computes: columns of the product, a term of it, or own rows of it.
StageRule gemm_rule(const Tensor& a, const Tensor& b) {
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
      rule.held = a.held == Held::whole ? Held::whole : Held::rows;
      rule.needs = {rule.held, Held::whole};
      break;
  }
  return rule;
}

// A term of a sum has no value of its own: what is computed of one waits for the sum.
Held summed(Held held) { return held == Held::partial ? Held::rows : held; }

StageRule unary_rule(const Tensor& x) {
  return {x.rows, x.cols, summed(x.held), {summed(x.held)}, {}};
}

// Whoever holds a part of one operand computes that part of the result.
StageRule binary_rule(const Tensor& x, const Tensor& y) {
  Held held = Held::whole;
  const bool partial = x.held == Held::partial || y.held == Held::partial;
  const Held other = x.held == Held::partial ? y.held : x.held;
  if (partial) {
    held = summed(other);
  } else {
    held = x.held == Held::whole ? y.held : x.held;
  }
  StageRule rule{x.rows, x.cols, held, {held, held}, {}};
  if (x.rows != y.rows || x.cols != y.cols) {
    rule.fault = fmt::format("both operands have one shape: {} and {}", shape(x), shape(y));
  }
  return rule;
}

StageRule with_row(const Tensor& x, const Tensor& row, Held held, Held of_row) {
  StageRule rule{x.rows, x.cols, held, {held, of_row}, {}};
  if (row.rows != 1 || row.cols != x.cols) {
    rule.fault = fmt::format("the second operand is one row of {} columns: {} and {}", x.cols,
                             shape(x), shape(row));
  }
  return rule;
}

}  // namespace

StageRule rule_of(StageKind kind, std::span<const Tensor* const> in) {
  const Tensor& x = *in[0];
  switch (kind) {
    case StageKind::gemm:
      return gemm_rule(x, *in[1]);
    case StageKind::swiglu:
    case StageKind::add:
      return binary_rule(x, *in[1]);
    case StageKind::gelu:
    case StageKind::silu:
      return unary_rule(x);
    case StageKind::bias: {
      const Held held = summed(x.held);
      return with_row(x, *in[1], held, held == Held::cols ? Held::cols : Held::whole);
    }
    case StageKind::norm:  // a row's mean needs all of its columns
      return with_row(x, *in[1], x.held == Held::whole ? Held::whole : Held::rows, Held::whole);
  }
  STRETTO_ASSERT(false, "kind of stage out of range");
}

}  // namespace stretto

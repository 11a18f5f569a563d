#include "op/stage_rules.h"

#include <fmt/format.h>

#include "op/routed_stage_rules.h"
#include "op/router_stage_rules.h"
#include "op/stage_faults.h"
#include "stretto/error.h"

namespace stretto {
namespace {

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
    case Held::experts:
    case Held::routed:
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

StageRule gather_rule(const Tensor& x) {
  StageRule rule{x.rows, x.cols, Held::whole, {Held::whole}, {}};
  if (x.held != Held::rows) {
    rule.fault = fmt::format("gather takes what ranks have by rows, and {} is {}", x.name,
                             to_string(x.held));
  }
  return rule;
}

// Whoever holds a part of one operand computes that part of the result.
StageRule binary_rule(const Tensor& x, const Tensor& y) {
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

StageRule with_row(const Tensor& x, const Tensor& row, Held held, Held of_row) {
  StageRule rule{x.rows, x.cols, held, {held, of_row}, {}};
  if (row.rows != 1 || row.cols != x.cols) {
    rule.fault = fmt::format("the second operand is one row of {} columns: {} and {}", x.cols,
                             shape(x), shape(row));
  }
  return rule;
}

StageRule dense_rule(StageKind kind, std::span<const Tensor* const> in) {
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
    case StageKind::gather:
      return gather_rule(x);
    case StageKind::norm:  // a row's mean needs all of its columns
      return with_row(x, *in[1], x.held == Held::whole ? Held::whole : Held::rows, Held::whole);
      STRETTO_CASES_BY_IDS break;
  }
  STRETTO_ASSERT(false, "kind of stage out of range");
}

}  // namespace

bool is_parameter(StageKind kind, size_t operand) {
  return operand == 1 && (multiplies(kind) || looks_up(kind) || kind == StageKind::bias ||
                          kind == StageKind::norm || kind == StageKind::biased_top_k);
}

StageRule rule_of(const Stage& stage, std::span<const Tensor* const> in, int ranks, DType dtype) {
  const StageKind kind = stage.kind;
  if (is_router_stage(kind)) return router_rule(stage, in, dtype);
  if (is_routed_stage(kind)) return routed_rule(stage, in, ranks, dtype);
  StageRule rule = dense_rule(kind, in);
  for (const Tensor* const one : in) {
    if (std::string fault = fault_in_type(kind, *one, dtype); !fault.empty()) {
      rule.fault = std::move(fault);
    }
  }
  return rule;
}

}  // namespace stretto

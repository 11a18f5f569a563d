#include "op/stage_rules.h"

#include <fmt/format.h>

#include "stretto/error.h"

namespace stretto {
namespace {

constexpr int64_t kMostExpertGroups = 32;  // a word has a bit for each

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
    case Held::experts:
    case Held::routed:
      rule.held = a.held == Held::whole ? Held::whole : Held::rows;
      rule.needs = {rule.held, Held::whole};
      break;
  }
  return rule;
}

std::string fault_in_row(std::string_view what, int64_t cols, DType dtype) {
  const int64_t step = kRoutedRowBytes / num_bytes(dtype);
  if (cols % step == 0) return {};
  const int64_t below = cols / step * step;
  return fmt::format(
      "rows of {} have {} columns on a rank, which are no multiple of {} bytes: take "
      "{}{}",
      what, cols, kRoutedRowBytes, below > 0 ? fmt::format("{} or ", below) : std::string(),
      below + step);
}

std::string fault_in_ids(const Tensor& ids, int64_t experts) {
  if (!is_index(ids.dtype)) {
    return fmt::format("{} says which matrices are meant: give it as i32 or i64", ids.name);
  }
  if (ids.cols <= experts) return {};
  return fmt::format("each row of {} chooses {} of {} matrices: take at most {}", ids.name,
                     ids.cols, experts, experts);
}

// The product of each row's choices, one below the other: of one row of X for each row of IDS, or
// for each of its choices.
StageRule grouped_rule(const Tensor& x, const Tensor& stack, const Tensor& ids, int ranks,
                       DType dtype) {
  const int64_t choices = ids.rows * ids.cols;
  StageRule rule{choices, stack.rows, Held::whole, {Held::whole, stack.held, Held::whole}, {}};
  const int64_t parts = stack.held == Held::rows ? ranks : 1;
  const int64_t shares = stack.held == Held::cols ? ranks : 1;
  if (x.cols != stack.cols) {
    rule.fault = fmt::format(
        "X and the matrices of a grouped product have as many columns (it "
        "multiplies by their transposes): {} and {}",
        shape(x), shape(stack));
  } else if (x.rows != choices && (x.rows != ids.rows || x.held == Held::routed)) {
    rule.fault = fmt::format(
        "X has a row for each row of IDS, or for each of its choices: {} and "
        "{}",
        shape(x), shape(ids));
  } else if (rule.fault = fault_in_ids(ids, stack.matrices); rule.fault.empty()) {
    if (x.cols % shares == 0) rule.fault = fault_in_row(x.name, x.cols / shares, dtype);
    if (rule.fault.empty() && stack.rows % parts == 0) {
      rule.fault = fault_in_row("the product", stack.rows / parts, dtype);
    }
  }
  switch (stack.held) {
    case Held::rows:
      rule.held = Held::cols;
      break;
    case Held::cols:
      rule.held = Held::partial;
      rule.needs[0] = Held::cols;
      break;
    case Held::experts:
      rule.held = Held::routed;
      rule.needs[0] = Held::routed;
      break;
    case Held::whole:
    case Held::partial:
    case Held::routed:
      break;
  }
  return rule;
}

// Each choice's row of X, at who has the expert.
StageRule permute_rule(const Stage& stage, const Tensor& x, const Tensor& ids, int ranks,
                       DType dtype) {
  StageRule rule{ids.rows * ids.cols, x.cols, Held::routed, {Held::routed, Held::whole}, {}};
  const auto has_own = [&](int64_t experts) {
    return RowShards{experts, ranks}.size(ranks - 1) > 0;
  };
  const int64_t rows = x.held == Held::routed ? ids.rows * ids.cols : ids.rows;
  if (x.rows != rows) {
    rule.fault = fmt::format("X has a row for each {} of IDS: {} and {}",
                             x.held == Held::routed ? "choice" : "row", shape(x), shape(ids));
  } else if (rule.fault = fault_in_ids(ids, stage.experts); rule.fault.empty()) {
    rule.fault = fault_in_row(x.name, x.cols, dtype);
  }
  if (rule.fault.empty() && !has_own(stage.experts)) {
    int64_t less = stage.experts, more = stage.experts;
    while (less > 0 && !has_own(less)) --less;
    while (!has_own(more)) ++more;
    rule.fault = fmt::format(
        "{} experts are dealt to {} ranks in blocks of {}, which leaves none for the last: take "
        "{}{}",
        stage.experts, ranks, RowShards{stage.experts, ranks}.block(),
        less > 0 ? fmt::format("{} or ", less) : "", more);
  }
  return rule;
}

// Whoever has an expert says how many chose it.
StageRule count_rule(const Stage& stage, const Tensor& ids) {
  return {stage.experts, 1, Held::rows, {Held::whole}, fault_in_ids(ids, stage.experts),
          DType::i32};
}

// Sums are as the products are held: terms of them where those are terms, and where ranks have some
// of the experts, sums over those.
StageRule weigh_rule(const Tensor& x, const Tensor& ids, const Tensor& weights) {
  StageRule rule{ids.rows, x.cols, x.held, {x.held, Held::whole, Held::whole}, {}};
  if (x.rows != ids.rows * ids.cols) {
    rule.fault =
        fmt::format("products have a row for each choice of IDS: {} and {}", shape(x), shape(ids));
  } else if (weights.rows != ids.rows || weights.cols != ids.cols) {
    rule.fault =
        fmt::format("there is a weight for each choice: {} and {}", shape(ids), shape(weights));
  } else if (!is_index(ids.dtype)) {
    rule.fault = fmt::format("{} says which matrices are meant: give it as i32 or i64", ids.name);
  }
  return rule;
}

// Who has a table looks up in it, and makes its columns of the result.
StageRule look_up_rule(const Tensor& ids, const Tensor& tables, DType dtype) {
  StageRule rule{
      ids.rows, tables.matrices * tables.cols, Held::cols, {Held::cols, tables.held}, {}};
  if (!is_index(ids.dtype)) {
    rule.fault = fmt::format("{} says which rows are meant: give it as i32 or i64", ids.name);
  } else if (tables.dtype != dtype) {
    rule.fault = fmt::format("tables are of {}, and {} is {}", to_string(dtype), tables.name,
                             to_string(tables.dtype));
  } else if (tables.held != Held::experts) {
    rule.fault = fmt::format(
        "tables are dealt to ranks: give {} as [tables, rows, columns] experts", tables.name);
  } else if (const int64_t all = tables.matrices; ids.cols % all != 0) {
    const int64_t below = ids.cols / all * all;
    rule.fault = fmt::format(
        "{} has {} columns for {} tables, of which each has as many: take {}{}", ids.name, ids.cols,
        all, below > 0 ? fmt::format("{} or ", below) : std::string(), below + all);
  }
  return rule;
}

// Rows of scores choose where they are.
StageRule top_k_rule(const Stage& stage, std::span<const Tensor* const> in) {
  const Tensor& scores = *in[0];
  const Held held = scores.held == Held::whole ? Held::whole : Held::rows;
  StageRule rule{scores.rows, stage.k, held, {held}, {}, DType::i32};
  const int64_t all = scores.cols, groups = stage.groups;
  if (all % groups != 0) {
    rule.fault = fmt::format("{} columns of {} are no {} groups of as many: take a divisor", all,
                             scores.name, groups);
  } else if (groups > kMostExpertGroups) {
    rule.fault = fmt::format("groups is {}: take at most {}", groups, kMostExpertGroups);
  } else if (stage.best > groups) {
    rule.fault =
        fmt::format("best is {} of {} groups: take at most {}", stage.best, groups, groups);
  } else if (const int64_t left = all / groups * stage.best; stage.k > left) {
    rule.fault = fmt::format("each row of {} chooses {} of {} experts: take at most {}",
                             scores.name, stage.k, left, left);
  }
  if (in.size() == 1) return rule;
  const Tensor& bias = *in[1];
  rule.needs.push_back(Held::whole);
  if (bias.rows != 1 || bias.cols != all) {
    rule.fault = fmt::format("the second operand is one row of {} columns: {} and {}", all,
                             shape(scores), shape(bias));
  }
  return rule;
}

StageRule gate_rule(const Tensor& scores, const Tensor& ids) {
  const Held held =
      scores.held == Held::whole && ids.held == Held::whole ? Held::whole : Held::rows;
  StageRule rule{ids.rows, ids.cols, held, {held, held}, {}, DType::fp32};
  if (!is_index(ids.dtype)) {
    rule.fault = fmt::format("{} says which experts are meant: give it as i32 or i64", ids.name);
  } else if (scores.rows != ids.rows) {
    rule.fault = fmt::format("there is a row of scores for each of IDS: {} and {}", shape(scores),
                             shape(ids));
  }
  return rule;
}

// Choices are those of slices where they are.
StageRule slice_rule(const Stage& stage, const Tensor& x) {
  const Held held = x.held == Held::whole ? Held::whole : Held::rows;
  const bool are_ids = stage.kind == StageKind::slice_ids;
  StageRule rule{x.rows, x.cols * stage.slices, held, {held}, {}, are_ids ? DType::i32 : x.dtype};
  if (are_ids != is_index(x.dtype)) {
    rule.fault = are_ids
                     ? fmt::format("{} says which experts are meant: give it as i32 or i64", x.name)
                     : fmt::format("{} is {}: weights are fp32", x.name, to_string(x.dtype));
  } else if (x.matrices > 1) {
    rule.fault = fmt::format("{} takes no stack of matrices: {}", to_string(stage.kind), x.name);
  } else if (are_ids && stage.experts > kMaxDim / stage.slices) {
    rule.fault = fmt::format("{} slices of {} experts: at most {} in all", stage.slices,
                             stage.experts, kMaxDim);
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

// What takes the operator's type takes no other.
std::string fault_in_type(StageKind kind, const Tensor& one, DType dtype) {
  if (one.matrices > 1) {
    return fmt::format("{} takes no stack of matrices: {}", to_string(kind), one.name);
  }
  if (one.dtype == dtype) return {};
  return fmt::format("{} computes in {}, and {} is {}", to_string(kind), to_string(dtype), one.name,
                     to_string(one.dtype));
}

// Scores, and what is added to them, may be of fp32.
std::string fault_in_scores(const Stage& stage, std::span<const Tensor* const> in, DType dtype) {
  for (size_t i = 0; i < in.size(); ++i) {
    if (i == 1 && weighs_experts(stage.kind)) continue;  // ids
    const Tensor& one = *in[i];
    if (one.matrices > 1) {
      return fmt::format("{} takes no stack of matrices: {}", to_string(stage.kind), one.name);
    }
    if (one.dtype == dtype || one.dtype == DType::fp32) continue;
    return fmt::format("{} goes by scores of {} or fp32, and {} is {}", to_string(stage.kind),
                       to_string(dtype), one.name, to_string(one.dtype));
  }
  return {};
}

StageRule router_rule(const Stage& stage, std::span<const Tensor* const> in, DType dtype) {
  StageRule rule = chooses_experts(stage.kind) ? top_k_rule(stage, in) : gate_rule(*in[0], *in[1]);
  if (std::string fault = fault_in_scores(stage, in, dtype); !fault.empty()) {
    rule.fault = std::move(fault);
  }
  return rule;
}

}  // namespace

bool is_parameter(StageKind kind, size_t operand) {
  return operand == 1 && (multiplies(kind) || looks_up(kind) || kind == StageKind::bias ||
                          kind == StageKind::norm || kind == StageKind::biased_top_k);
}

StageRule rule_of(const Stage& stage, std::span<const Tensor* const> in, int ranks, DType dtype) {
  const StageKind kind = stage.kind;
  const Tensor& x = *in[0];
  if (chooses_experts(kind) || weighs_experts(kind)) return router_rule(stage, in, dtype);
  if (slices_choices(kind)) return slice_rule(stage, x);
  if (kind == StageKind::grouped) return grouped_rule(x, *in[1], *in[2], ranks, dtype);
  if (kind == StageKind::permute) {
    StageRule rule = permute_rule(stage, x, *in[1], ranks, dtype);
    if (std::string fault = fault_in_type(kind, x, dtype); !fault.empty()) {
      rule.fault = std::move(fault);
    }
    return rule;
  }
  if (kind == StageKind::count) return count_rule(stage, x);
  if (kind == StageKind::weigh) return weigh_rule(x, *in[1], *in[2]);
  if (looks_up(kind)) return look_up_rule(x, *in[1], dtype);
  StageRule rule = dense_rule(kind, in);
  for (const Tensor* const one : in) {
    if (std::string fault = fault_in_type(kind, *one, dtype); !fault.empty()) {
      rule.fault = std::move(fault);
    }
  }
  return rule;
}

}  // namespace stretto

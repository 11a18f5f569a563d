#include "op/routed_stage_rules.h"

#include <fmt/format.h>

#include "op/stage_faults.h"
#include "stretto/error.h"

namespace stretto {
namespace {

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

// A stack of one matrix is dealt as those of more are: its entries' tiles are alike on all ranks.
std::string fault_in_share(const Tensor& stack, int64_t size, std::string_view what, int ranks,
                           DType dtype) {
  if (stack.matrices > 1 || size % ranks == 0) return {};
  const int64_t step = ranks * kRoutedRowBytes / num_bytes(dtype), below = size / step * step;
  return fmt::format(
      "{} {} of {} are dealt to {} ranks, and those of a stack must divide: take {}{}", size, what,
      stack.name, ranks, below > 0 ? fmt::format("{} or ", below) : std::string(), below + step);
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
    rule.fault = fault_in_share(stack, stack.rows, "rows", static_cast<int>(parts), dtype);
    if (rule.fault.empty()) {
      rule.fault = fault_in_share(stack, stack.cols, "columns", static_cast<int>(shares), dtype);
    }
    if (rule.fault.empty() && x.cols % shares == 0) {
      rule.fault = fault_in_row(x.name, x.cols / shares, dtype);
    }
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

}  // namespace

std::string fault_in_ids(const Tensor& ids, int64_t experts, std::string_view called) {
  if (!is_index(ids.dtype)) {
    return fmt::format("{} says which matrices are meant: give it as i32 or i64", ids.name);
  }
  if (ids.cols <= experts) return {};
  return fmt::format("each row of {} chooses {} of {} {}: take at most {}", ids.name, ids.cols,
                     experts, called, experts);
}

bool is_routed_stage(StageKind kind) {
  return kind == StageKind::grouped || kind == StageKind::permute || kind == StageKind::count ||
         kind == StageKind::weigh || looks_up(kind);
}

StageRule routed_rule(const Stage& stage, std::span<const Tensor* const> in, int ranks,
                      DType dtype) {
  const Tensor& x = *in[0];
  if (stage.kind == StageKind::grouped) return grouped_rule(x, *in[1], *in[2], ranks, dtype);
  if (stage.kind == StageKind::permute) {
    StageRule rule = permute_rule(stage, x, *in[1], ranks, dtype);
    if (std::string fault = fault_in_type(stage.kind, x, dtype); !fault.empty()) {
      rule.fault = std::move(fault);
    }
    return rule;
  }
  if (stage.kind == StageKind::count) return count_rule(stage, x);
  if (stage.kind == StageKind::weigh) return weigh_rule(x, *in[1], *in[2]);
  STRETTO_ASSERT(looks_up(stage.kind), "a stage whose rows are chosen by ids");
  return look_up_rule(x, *in[1], dtype);
}

}  // namespace stretto

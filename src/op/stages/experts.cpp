// Stages of experts, whose rows are chosen by ids: products, and what permutes, counts and weighs
// choices. Exact results are made in routed_values.cpp.
#include <fmt/format.h>

#include "op/stage_faults.h"
#include "op/stages/stage_row.h"

namespace stretto {
namespace {

// A rank has the columns, or one of so many shares of them.
std::string fault_in_row(std::string_view what, int64_t cols, int64_t shares, DType dtype) {
  const int64_t step = shares * kRoutedRowBytes / num_bytes(dtype);
  if (cols % step == 0) return {};
  const int64_t below = cols / step * step;
  return fmt::format(
      "rows of {} have {} columns{} on a rank, which are no multiple of {} bytes: "
      "take {}{}",
      what, cols, shares > 1 ? fmt::format(", {}", cols / shares) : std::string(), kRoutedRowBytes,
      below > 0 ? fmt::format("{} or ", below) : std::string(), below + step);
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
StageRule grouped_rule(const StageOperands& of) {
  const Tensor &x = *of.in[0], &stack = *of.in[1], &ids = *of.in[2];
  const int ranks = of.ranks;
  const DType dtype = of.dtype;
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
      rule.fault = fault_in_row(x.name, x.cols, shares, dtype);
    }
    if (rule.fault.empty() && stack.rows % parts == 0) {
      rule.fault = fault_in_row("the product", stack.rows, parts, dtype);
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
StageRule permute_rule(const StageOperands& of) {
  const Stage& stage = of.stage;
  const Tensor &x = *of.in[0], &ids = *of.in[1];
  const int ranks = of.ranks;
  StageRule rule{ids.rows * ids.cols, x.cols, Held::routed, {Held::routed, Held::whole}, {}};
  const auto has_own = [&](int64_t experts) {
    return RowShards{experts, ranks}.size(ranks - 1) > 0;
  };
  const int64_t rows = x.held == Held::routed ? ids.rows * ids.cols : ids.rows;
  if (x.rows != rows) {
    rule.fault = fmt::format("X has a row for each {} of IDS: {} and {}",
                             x.held == Held::routed ? "choice" : "row", shape(x), shape(ids));
  } else if (rule.fault = fault_in_ids(ids, stage.experts); rule.fault.empty()) {
    rule.fault = fault_in_row(x.name, x.cols, 1, of.dtype);
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
  if (std::string fault = fault_in_type(stage.kind, x, of.dtype); !fault.empty()) {
    rule.fault = std::move(fault);
  }
  return rule;
}

// Whoever has an expert says how many chose it.
StageRule count_rule(const StageOperands& of) {
  const int64_t experts = of.stage.experts;
  return {experts, 1, Held::rows, {Held::whole}, fault_in_ids(*of.in[0], experts), DType::i32};
}

// Sums are as the products are held: terms of them where those are terms, and where ranks have some
// of the experts, sums over those.
StageRule weigh_rule(const StageOperands& of) {
  const Tensor &x = *of.in[0], &ids = *of.in[1], &weights = *of.in[2];
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

}  // namespace

const StageRow stages::grouped{
    .rule = grouped_rule, .task = {}, .has_parameter = true, .is_of_all_ranks = true};
const StageRow stages::permute{
    .rule = permute_rule, .task = Opcode::permute, .sizes = size_of_first, .is_of_all_ranks = true};
const StageRow stages::weigh{.rule = weigh_rule, .task = Opcode::weigh, .is_of_all_ranks = true};
const StageRow stages::count{
    .rule = count_rule, .task = Opcode::sum_counts, .is_of_all_ranks = true};

}  // namespace stretto

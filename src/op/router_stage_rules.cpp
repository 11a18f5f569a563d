#include "op/router_stage_rules.h"

#include <fmt/format.h>

#include "op/routed_stage_rules.h"
#include "op/stage_faults.h"

namespace stretto {
namespace {

constexpr int64_t kMostExpertGroups = 32;  // a word has a bit for each

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
  } else {
    rule.fault = fault_in_ids(ids, scores.cols, "experts");
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
  } else if (are_ids) {
    rule.fault = fault_in_ids(x, stage.experts, "experts");
  }
  return rule;
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

}  // namespace

bool is_router_stage(StageKind kind) {
  return chooses_experts(kind) || weighs_experts(kind) || slices_choices(kind);
}

StageRule router_rule(const Stage& stage, std::span<const Tensor* const> in, DType dtype) {
  if (slices_choices(stage.kind)) return slice_rule(stage, *in[0]);
  StageRule rule = chooses_experts(stage.kind) ? top_k_rule(stage, in) : gate_rule(*in[0], *in[1]);
  if (std::string fault = fault_in_scores(stage, in, dtype); !fault.empty()) {
    rule.fault = std::move(fault);
  }
  return rule;
}

}  // namespace stretto

// Stages of a router: which experts a row of scores chooses, with which weights, and what slices of
// experts these are. Exact results are made in router_values.cpp.
#include <fmt/format.h>

#include "op/stage_faults.h"
#include "op/stages/stage_row.h"

namespace stretto {
namespace {

constexpr int64_t kMostExpertGroups = 32;  // a word has a bit for each

// Scores, and what is added to them, may be of fp32.
void refuse_scores(const StageOperands& of, StageRule& rule) {
  const Stage& stage = of.stage;
  for (size_t i = 0; i < of.in.size(); ++i) {
    if (i == 1 && weighs_experts(stage.kind)) continue;  // ids
    const Tensor& one = *of.in[i];
    if (one.matrices > 1) {
      rule.fault =
          fmt::format("{} takes no stack of matrices: {}", to_string(stage.kind), one.name);
      return;
    }
    if (one.dtype == of.dtype || one.dtype == DType::fp32) continue;
    rule.fault = fmt::format("{} goes by scores of {} or fp32, and {} is {}", to_string(stage.kind),
                             to_string(of.dtype), one.name, to_string(one.dtype));
    return;
  }
}

// Rows of scores choose where they are.
StageRule top_k_rule(const StageOperands& of) {
  const Stage& stage = of.stage;
  const Tensor& scores = *of.in[0];
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
  if (of.in.size() > 1) {
    const Tensor& bias = *of.in[1];
    rule.needs.push_back(Held::whole);
    if (bias.rows != 1 || bias.cols != all) {
      rule.fault = fmt::format("the second operand is one row of {} columns: {} and {}", all,
                               shape(scores), shape(bias));
    }
  }
  refuse_scores(of, rule);
  return rule;
}

StageRule gate_rule(const StageOperands& of) {
  const Tensor &scores = *of.in[0], &ids = *of.in[1];
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
  refuse_scores(of, rule);
  return rule;
}

// Choices are those of slices where they are.
StageRule slice_rule(const StageOperands& of) {
  const Stage& stage = of.stage;
  const Tensor& x = *of.in[0];
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

}  // namespace

const StageRow stages::top_k{.rule = top_k_rule, .task = Opcode::top_k};
const StageRow stages::biased_top_k{
    .rule = top_k_rule, .task = Opcode::biased_top_k, .has_parameter = true};
const StageRow stages::softmax_gate{.rule = gate_rule, .task = Opcode::softmax_gate};
const StageRow stages::sigmoid_gate{.rule = gate_rule, .task = Opcode::sigmoid_gate};
const StageRow stages::slice_ids{.rule = slice_rule, .task = Opcode::slice_ids};
const StageRow stages::slice_weights{.rule = slice_rule, .task = Opcode::slice_weights};

}  // namespace stretto

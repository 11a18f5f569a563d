#include "op/stage_binder.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "op/stages/stage_row.h"

namespace stretto {
namespace {

// Of what a stage makes: columns of one table stay together, also in what follows element by
// element.
int64_t unit_of(StageKind kind, const std::vector<const Tensor*>& in) {
  if (looks_up(kind)) return in[1]->cols;
  return multiplies(kind) ? 0 : in[0]->unit;
}

// What would be right: as what a tensor is held that can be taken so.
std::string held_that_can_be(Held needed) {
#define STRETTO_HELD(name, ...) Held::name,
  constexpr Held kAll[] = {STRETTO_HELDS(STRETTO_HELD)};
#undef STRETTO_HELD
  std::string found(to_string(needed));
  for (const Held held : kAll) {
    if (held != needed && edge_between(held, needed)) found += fmt::format(", {}", to_string(held));
  }
  return fmt::format("; take one that is {}", found);
}

}  // namespace

bool are_sums_of_some(const Operator& graph, const Tensor& tensor) {
  return tensor.held == Held::routed && tensor.stage >= 0 &&
         graph.stage(tensor.stage).kind == StageKind::weigh;
}

bool StageBinder::Operands::are_known() const {
  return std::all_of(known.begin(), known.end(), [](const Known& one) { return one.all(); });
}

bool StageBinder::Operands::are_held_known() const {
  return std::all_of(known.begin(), known.end(), [](const Known& one) { return one.held; });
}

bool StageBinder::read_attributes(const StageText& text, Stage& stage) {
  bool are_known = true;
  const auto size_of = [&](const std::optional<Extent>& extent, int64_t absent) {
    if (!extent) return absent;
    const std::optional<int64_t> size = binding_.extent(*extent, text.in_place);
    are_known = are_known && size.has_value();
    return size.value_or(1);
  };
  stage.eps = text.eps;
  stage.k = size_of(text.k, stage.k);
  stage.groups = size_of(text.groups, stage.groups);
  stage.best = size_of(text.best, stage.groups);
  stage.slices = size_of(text.slices, stage.slices);
  stage.experts = size_of(text.experts, stage.experts);
  stage.scale = text.scale.value_or(1);
  stage.normalises = text.normalises.value_or(true);
  return are_known;
}

StageBinder::Operands StageBinder::operands_of(const Stage& stage) const {
  Operands in;
  for (const int tensor : stage.in) {
    in.tensors.push_back(&graph_.tensors[static_cast<size_t>(tensor)]);
    in.known.push_back(binding_.known(tensor));
  }
  return in;
}

// What is computed of such sums takes the rows that they are combined to.
StageRule StageBinder::rule_of_sums(const Stage& stage,
                                    const std::vector<const Tensor*>& in) const {
  std::vector<Tensor> combined;
  for (const Tensor* const one : in) {
    combined.push_back(*one);
    if (are_sums_of_some(graph_, *one)) combined.back().held = Held::rows;
  }
  std::vector<const Tensor*> operands;
  for (const Tensor& one : combined) operands.push_back(&one);
  return rule_of(stage, operands, graph_.ranks, graph_.dtype);
}

void StageBinder::add(const StageText& text) {
  Stage stage;
  stage.kind = text.kind;
  if (!read_attributes(text, stage)) return;
  for (const std::string& name : text.in) stage.in.push_back(binding_.id_of(name));
  const Operands in = operands_of(stage);
  for (const Tensor* const one : in.tensors) {
    // Stacks, and what goes by them, are of all ranks.
    if (stage.team == 0 && !row_of(text.kind).is_of_all_ranks) stage.team = one->team;
  }
  KnownRule of = known_rule(in.tensors, in.known, [&](const std::vector<const Tensor*>& tensors) {
    return rule_of_sums(stage, tensors);
  });
  // Types and shapes are asked for with the ranks that they are for.
  if (!binding_.knows_ranks) of.rule.fault.clear();
  if (!of.rule.fault.empty()) refuse(text.in_place, of.rule.fault);
  if (binding_.knows_ranks) check_dealt(text, stage, in, of);
  check_edges(text, stage, in, of);
  make(text, std::move(stage), in, of);
}

void StageBinder::check_dealt(const StageText& text, const Stage& stage, const Operands& in,
                              const KnownRule& of) {
  if (multiplies(text.kind) && in.known[1].all() && in.tensors[1]->held == Held::rows) {
    dealing_.check_rows_divide(*in.tensors[1], text.in_place, binding_.causes_of(stage.in[1]));
  }
  if (!in.are_known()) return;
  if (looks_up(text.kind)) {
    dealing_.set_unit_of_ids(stage.in[0], in.tensors[1]->matrices, text.in_place);
  } else if (of.rule.fault.empty()) {
    dealing_.check_dealt_alike(text, in.tensors, of.rule);
  }
  if (stage.team > 0) {
    dealing_.check_team_rows(of.rule.rows, text.in_place, binding_.causes_of(stage.in[0]).rows);
  }
}

void StageBinder::check_edges(const StageText& text, const Stage& stage, const Operands& in,
                              const KnownRule& of) {
  for (size_t i = 0; i < in.tensors.size(); ++i) {
    const Tensor& one = *in.tensors[i];
    const Held needed = of.rule.needs[i];
    if (one.stage >= 0 && is_parameter(text.kind, i)) {
      refuse(text.in_place,
             fmt::format("{} takes {} as a weight, which the caller gives, and it is made by a "
                         "stage: give it as an input",
                         to_string(text.kind), one.name));
      continue;
    }
    if (!in.known[i].held || !of.needs[i]) continue;
    if (in.are_held_known() &&
        !Dealing::is_of_team(one, stage.team, is_parameter(text.kind, i), needed)) {
      refuse(
          text.in_place,
          fmt::format("{} needs {} held by {}, and it is held as {} by {}: there is no edge from "
                      "one to the other",
                      to_string(text.kind), one.name, Dealing::teams_of(stage.team),
                      to_string(one.held), Dealing::teams_of(one.team)));
      continue;
    }
    const bool is_term = are_sums_of_some(graph_, one) && needed == Held::routed;
    if (!is_term && edge_between(one.held, needed)) continue;
    refuse(text.in_place,
           fmt::format("{} needs {} held as {}, and it is {}: there is no edge from one to the "
                       "other{}",
                       to_string(text.kind), one.name, to_string(needed),
                       is_term ? "a sum over some experts" : to_string(one.held),
                       is_term ? "" : held_that_can_be(needed)));
  }
}

void StageBinder::make(const StageText& text, Stage stage, const Operands& in,
                       const KnownRule& of) {
  const StageRule& rule = of.rule;
  Known known = of.made;
  // Of operands that do not fit nobody knows which is wrong; a product has its shape of both.
  const bool fits = rule.fault.empty() || multiplies(text.kind);
  known.rows = known.rows && fits;
  known.cols = known.cols && fits;
  const bool may_be_of_team = !in.are_held_known() && !binding_.text.teams.empty();
  known.held = known.held && !may_be_of_team;
  stage.needs = rule.needs;
  stage.out = static_cast<int>(graph_.tensors.size());
  Tensor made{text.out,
              rule.rows,
              rule.cols,
              rule.held,
              static_cast<int>(graph_.stages.size()),
              rule.dtype.value_or(graph_.dtype)};
  made.unit = unit_of(text.kind, in.tensors);
  if (rule.held != Held::rows) made.team = stage.team;
  made.deals_rows = made.team > 0;
  Causes causes = binding_.causes_of(stage.in[0]);
  if (multiplies(text.kind)) causes.cols = binding_.causes_of(stage.in[1]).rows;
  if (looks_up(text.kind)) causes.cols = binding_.causes_of(stage.in[1]).matrices;
  if (in.are_known() && known.all() && binding_.knows_ranks) {
    dealing_.check_divides(made, made.held, text.place, causes);
  }
  graph_.stages.push_back(std::move(stage));
  binding_.add(std::move(made), text.place, std::move(causes), known);
}

}  // namespace stretto

// Graphs whose sizes are known: shapes, who holds what, and the edges that follow.
#include <fmt/format.h>

#include <algorithm>

#include "op/binding.h"
#include "op/dealing.h"
#include "op/graph_text.h"
#include "op/input_sizes.h"
#include "op/segments.h"
#include "op/stage_rules.h"
#include "op/stages/stage_row.h"
#include "stretto/operator.h"
#include "stretto/segment.h"

namespace stretto {
namespace {

class Binder {
 public:
  Binder(std::shared_ptr<const GraphText> text, int ranks, DType dtype)
      : binding_(std::move(text), ranks, dtype),
        dealing_(binding_),
        text_(binding_.text),
        graph_(binding_.graph) {}

  Operator bind(const Sizes& sizes) {
    binding_.bind_sizes(sizes);
    if (graph_.ranks < 1 || graph_.ranks > kMaxRanks) {
      binding_.reasons.push_back(
          fmt::format("ranks is {}; it must be between 1 and {}", graph_.ranks, kMaxRanks));
    }
    binding_.throw_reasons();
    check_product();
    for (const TeamText& team : text_.teams) dealing_.add_team(team);
    for (const InputText& input : text_.inputs) add_input(input);
    if (binding_.num_wrong_extents > 0) binding_.throw_reasons();
    for (const StageText& stage : text_.stages) {
      if (binding_.has_enough_reasons()) break;
      add_stage(stage);
    }
    for (const OutputText& output : text_.outputs) add_output(output);
    keep_scores();
    if (binding_.reasons.empty()) cut_segments(graph_, binding_.reasons);
    binding_.throw_reasons();
    set_input_sizes(graph_);
    return std::move(graph_);
  }

 private:
  void refuse(TextPlace place, const std::string& reason) { binding_.refuse(place, reason); }

  // What is wrong with a shipped operator of one product is said in its own sizes.
  void check_product() const {
    const auto kind = product_kind_from(text_.name);
    if (!kind || find_graph(text_.name).get() != &text_) return;
    const auto size = [&](std::string_view name) { return graph_.size(name).value_or(0); };
    validate(Segment{*kind, size("m"), size("n"), size("k"), graph_.ranks, graph_.dtype});
  }

  void add_input(const InputText& input) {
    const int wrong_before = binding_.num_wrong_extents;
    Tensor tensor{input.name,
                  binding_.extent(input.rows, input.place),
                  binding_.extent(input.cols, input.place),
                  input.held,
                  -1,
                  input.dtype.value_or(graph_.dtype)};
    Causes causes{input.rows.text(), input.cols.text()};
    if (input.matrices) {
      tensor.matrices = binding_.extent(*input.matrices, input.place);
      causes.matrices = input.matrices->text();
    } else if (input.held == Held::experts) {
      refuse(input.place,
             fmt::format("{} is no stack of matrices: give [matrices, rows, columns]", input.name));
    }
    if (input.matrices && input.held == Held::routed) {
      refuse(input.place,
             fmt::format("{} is a stack of matrices, which is dealt as experts: routed "
                         "are rows",
                         input.name));
    }
    if (binding_.num_wrong_extents > wrong_before) return;
    dealing_.give_to_teams(tensor, input, causes);
    // Indices are dealt as the tables are that they look up in.
    if (!is_index(tensor.dtype)) dealing_.check_divides(tensor, tensor.held, input.place, causes);
    binding_.add(std::move(tensor), input.place, std::move(causes));
  }

  // Of what a stage makes: columns of one table stay together, also in what follows element by
  // element.
  static int64_t unit_of(StageKind kind, const std::vector<const Tensor*>& in) {
    if (looks_up(kind)) return in[1]->cols;
    return multiplies(kind) ? 0 : in[0]->unit;
  }

  // Where experts are dealt to ranks: each has a sum over its own, which is no value yet.
  bool are_sums_of_some(const Tensor& tensor) const {
    return tensor.held == Held::routed && tensor.stage >= 0 &&
           graph_.stage(tensor.stage).kind == StageKind::weigh;
  }

  // What is computed of such sums takes the rows that they are combined to.
  StageRule rule_of_sums(const Stage& stage, const std::vector<const Tensor*>& in) const {
    std::vector<Tensor> combined;
    for (const Tensor* const one : in) {
      combined.push_back(*one);
      if (are_sums_of_some(*one)) combined.back().held = Held::rows;
    }
    std::vector<const Tensor*> operands;
    for (const Tensor& one : combined) operands.push_back(&one);
    return rule_of(stage, operands, graph_.ranks, graph_.dtype);
  }

  void add_stage(const StageText& text) {
    Stage stage;
    stage.kind = text.kind;
    stage.eps = text.eps;
    if (text.k) stage.k = binding_.extent(*text.k, text.in_place);
    if (text.groups) stage.groups = binding_.extent(*text.groups, text.in_place);
    stage.best = text.best ? binding_.extent(*text.best, text.in_place) : stage.groups;
    if (text.slices) stage.slices = binding_.extent(*text.slices, text.in_place);
    if (text.experts) stage.experts = binding_.extent(*text.experts, text.in_place);
    stage.scale = text.scale.value_or(1);
    stage.normalises = text.normalises.value_or(true);
    std::vector<const Tensor*> in;
    for (const std::string& name : text.in) {
      stage.in.push_back(binding_.ids.at(name));
      in.push_back(&graph_.tensors[static_cast<size_t>(stage.in.back())]);
    }
    for (const Tensor* const one : in) {
      // Stacks, and what goes by them, are of all ranks.
      if (stage.team == 0 && !row_of(text.kind).is_of_all_ranks) stage.team = one->team;
    }
    const StageRule rule = rule_of_sums(stage, in);
    if (!rule.fault.empty()) refuse(text.in_place, rule.fault);
    if (multiplies(text.kind) && in[1]->held == Held::rows) {
      dealing_.check_rows_divide(*in[1], text.in_place, binding_.causes_of(stage.in[1]));
    }
    if (looks_up(text.kind)) {
      dealing_.set_unit_of_ids(stage.in[0], in[1]->matrices, text.in_place);
    } else if (rule.fault.empty()) {
      dealing_.check_dealt_alike(text, in, rule);
    }
    for (size_t i = 0; i < in.size(); ++i) {
      if (in[i]->stage >= 0 && is_parameter(text.kind, i)) {
        refuse(text.in_place,
               fmt::format("{} takes {} as a weight, which the caller gives, and it is made by a "
                           "stage: give it as an input",
                           to_string(text.kind), in[i]->name));
        continue;
      }
      const bool is_term = are_sums_of_some(*in[i]) && rule.needs[i] == Held::routed;
      if (!Dealing::is_of_team(*in[i], stage.team, is_parameter(text.kind, i), rule.needs[i])) {
        refuse(
            text.in_place,
            fmt::format("{} needs {} held by {}, and it is held as {} by {}: there is no edge from "
                        "one to the other",
                        to_string(text.kind), in[i]->name, Dealing::teams_of(stage.team),
                        to_string(in[i]->held), Dealing::teams_of(in[i]->team)));
        continue;
      }
      if (!is_term && edge_between(in[i]->held, rule.needs[i])) continue;
      refuse(text.in_place,
             fmt::format("{} needs {} held as {}, and it is {}: there is no edge from one to the "
                         "other",
                         to_string(text.kind), in[i]->name, to_string(rule.needs[i]),
                         is_term ? "a sum over some experts" : to_string(in[i]->held)));
    }
    if (stage.team > 0)
      dealing_.check_team_rows(rule.rows, text.in_place, binding_.causes_of(stage.in[0]).rows);
    stage.needs = rule.needs;
    stage.out = static_cast<int>(graph_.tensors.size());
    Tensor made{text.out,
                rule.rows,
                rule.cols,
                rule.held,
                static_cast<int>(graph_.stages.size()),
                rule.dtype.value_or(graph_.dtype)};
    made.unit = unit_of(text.kind, in);
    if (rule.held != Held::rows) made.team = stage.team;
    made.deals_rows = made.team > 0;
    Causes causes = binding_.causes_of(stage.in[0]);
    if (multiplies(text.kind)) causes.cols = binding_.causes_of(stage.in[1]).rows;
    if (looks_up(text.kind)) causes.cols = binding_.causes_of(stage.in[1]).matrices;
    dealing_.check_divides(made, made.held, text.place, causes);
    graph_.stages.push_back(std::move(stage));
    binding_.add(std::move(made), text.place, std::move(causes));
  }

  // Products that experts are chosen by, with a bias or without, and nothing else reads, stay in
  // fp32.
  void keep_scores() {
    for (Tensor& tensor : graph_.tensors) {
      if (tensor.stage < 0 || tensor.held == Held::partial) continue;
      const StageKind kind = graph_.stage(tensor.stage).kind;
      if (kind != StageKind::gemm && kind != StageKind::bias) continue;
      const int id = binding_.ids.at(tensor.name);
      bool any = false, all = !graph_.output_held(id);
      for (const Stage& stage : graph_.stages) {
        for (size_t i = 0; i < stage.in.size(); ++i) {
          if (stage.in[i] != id) continue;
          any = true;
          all = all && i == 0 && (chooses_experts(stage.kind) || weighs_experts(stage.kind));
        }
      }
      if (any && all) tensor.dtype = DType::fp32;
    }
  }

  void add_output(const OutputText& output) {
    const auto found = binding_.ids.find(output.tensor);
    if (found == binding_.ids.end()) return;
    const Tensor& tensor = graph_.tensors[static_cast<size_t>(found->second)];
    dealing_.check_divides(tensor, output.held, output.place, binding_.causes_of(found->second));
    if (const int team = dealing_.team_named(output.team);
        output.held != Held::rows && tensor.team != team) {
      refuse(output.place,
             fmt::format("output {} is to be held by {}, and it is made by {}: there "
                         "is no edge from one to the other",
                         output.tensor, Dealing::teams_of(team), Dealing::teams_of(tensor.team)));
    }
    const bool has_choices = tensor.held == Held::routed && !are_sums_of_some(tensor);
    if (has_choices != (output.held == Held::routed)) {
      refuse(
          output.place,
          has_choices
              ? fmt::format("output {} has a row for each choice, where its expert is: output it "
                            "as routed, or weigh it",
                            output.tensor)
              : fmt::format("output {} has no row for each choice: output it otherwise than "
                            "routed",
                            output.tensor));
    } else if (!edge_between(tensor.held, output.held)) {
      refuse(output.place,
             fmt::format("output {} is to be held as {}, and it is made {}: there is no edge from "
                         "one to the other",
                         output.tensor, to_string(output.held), to_string(tensor.held)));
    }
    graph_.outputs.push_back({found->second, output.held});
  }

  Binding binding_;
  Dealing dealing_;
  const GraphText& text_;
  Operator& graph_;
};

}  // namespace

Operator make_graph(std::shared_ptr<const GraphText> text, const Sizes& sizes, int ranks,
                    DType dtype) {
  return Binder(std::move(text), ranks, dtype).bind(sizes);
}

}  // namespace stretto

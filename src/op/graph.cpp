// Graphs whose sizes are known: shapes, who holds what, and the edges that follow.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/text.h"
#include "op/dealt_columns.h"
#include "op/graph_text.h"
#include "op/input_sizes.h"
#include "op/segments.h"
#include "op/stage_rules.h"
#include "stretto/error.h"
#include "stretto/operator.h"
#include "stretto/segment.h"

namespace stretto {
namespace {

constexpr size_t kMostReasons = 20;

class Binder {
 public:
  Binder(std::shared_ptr<const GraphText> text, int ranks, DType dtype) : text_(*text) {
    graph_.text = std::move(text);
    graph_.ranks = ranks;
    graph_.dtype = dtype;
  }

  Operator bind(const Sizes& sizes) {
    bind_sizes(sizes);
    if (graph_.ranks < 1 || graph_.ranks > kMaxRanks) {
      reasons_.push_back(
          fmt::format("ranks is {}; it must be between 1 and {}", graph_.ranks, kMaxRanks));
    }
    if (!reasons_.empty()) fail("; ", text_.name + ": ");
    check_product();
    for (const TeamText& team : text_.teams) add_team(team);
    for (const InputText& input : text_.inputs) add_input(input);
    for (const StageText& stage : text_.stages) {
      if (reasons_.size() >= kMostReasons) break;
      add_stage(stage);
    }
    for (const OutputText& output : text_.outputs) add_output(output);
    keep_scores();
    if (reasons_.empty()) cut_segments(graph_, reasons_);
    if (!reasons_.empty()) fail("; ", text_.name + ": ");
    set_input_sizes(graph_);
    return std::move(graph_);
  }

 private:
  [[noreturn]] void fail(std::string_view separator, const std::string& begin) const {
    throw UsageError(begin + join(reasons_, separator));
  }
  void refuse(TextPlace place, const std::string& reason) {
    // Shipped graphs are not the user's: only a file of one's own has lines to point at.
    const std::string line =
        (find_graph(text_.name).get() == &text_ ? "" : prefix(text_, place)) + reason;
    // One cause may show at several tensors.
    if (std::find(reasons_.begin(), reasons_.end(), line) == reasons_.end()) {
      reasons_.push_back(line);
    }
  }

  void bind_sizes(const Sizes& sizes) {
    for (const std::string& name : text_.sizes) {
      const auto given = std::find_if(sizes.begin(), sizes.end(),
                                      [&](const auto& size) { return size.first == name; });
      if (given == sizes.end()) {
        reasons_.push_back(fmt::format("{}= is missing", name));
        continue;
      }
      const int64_t value = given->second;
      if (value < 1) {
        reasons_.push_back(fmt::format("{} is {}; it must be at least 1", name, value));
      } else if (value > kMaxDim) {
        reasons_.push_back(fmt::format("{} is {}; it can be at most {}", name, value, kMaxDim));
      }
      graph_.sizes.emplace_back(name, value);
    }
    std::vector<std::string_view> known(text_.sizes.begin(), text_.sizes.end());
    for (const auto& [name, value] : sizes) {
      if (std::find(known.begin(), known.end(), name) == known.end()) {
        reasons_.push_back(unknown_word("size", name, known));
      }
    }
  }

  // What is wrong with a shipped operator of one product is said in its own sizes.
  void check_product() const {
    const auto kind = product_kind_from(text_.name);
    if (!kind || find_graph(text_.name).get() != &text_) return;
    const auto size = [&](std::string_view name) { return graph_.size(name).value_or(0); };
    validate(Segment{*kind, size("m"), size("n"), size("k"), graph_.ranks, graph_.dtype});
  }

  int64_t extent(const Extent& extent, TextPlace place) {
    const auto value = extent.value([&](std::string_view name) { return *graph_.size(name); });
    if (value && *value >= 1 && *value <= kMaxDim) return *value;
    refuse(place, fmt::format("{} is {}; an extent must be between 1 and {}", extent.text(),
                              value ? std::to_string(*value) : "too large", kMaxDim));
    return 1;
  }

  // Who gave a tensor its sizes, as texts of extents: of what is wrong with them that is the cause.
  struct Causes {
    std::string rows, cols, matrices = {};
  };

  void add(Tensor tensor, TextPlace place, Causes causes) {
    if (tensor.rows * tensor.cols > kMaxElements) {
      refuse(place, fmt::format("{} has {} x {} elements; a tensor can have at most {}",
                                tensor.name, tensor.rows, tensor.cols, kMaxElements));
    } else if (tensor.rows * tensor.matrices > kMaxDim ||
               tensor.rows * tensor.cols > kMaxElements / tensor.matrices) {
      refuse(place, fmt::format("{} has {} matrices of {} x {} elements; a stack can have at most "
                                "{} rows and {} elements",
                                tensor.name, tensor.matrices, tensor.rows, tensor.cols, kMaxDim,
                                kMaxElements));
    }
    ids_[tensor.name] = static_cast<int>(graph_.tensors.size());
    graph_.tensors.push_back(std::move(tensor));
    causes_.push_back(std::move(causes));
  }

  void add_team(const TeamText& text) {
    const auto value = text.ranks.value([&](std::string_view name) { return *graph_.size(name); });
    const int64_t size = value.value_or(0);
    const int ranks = graph_.ranks;
    int& known = teams_[text.name];  // as all ranks, so that nothing else is wrong with it
    if (size < 1 || size > ranks || ranks % size != 0) {
      std::string sizes;
      for (int each = 1; each <= ranks; ++each) {
        if (ranks % each == 0) sizes += fmt::format("{}{}", sizes.empty() ? "" : ", ", each);
      }
      const std::string given = value ? std::to_string(*value) : text.ranks.text();
      return refuse(text.place,
                    fmt::format("team {} of {} ranks, and {} ranks are whole teams of: {}",
                                text.name, given, ranks, sizes));
    }
    if (size < ranks) known = static_cast<int>(size);
  }
  // Ranks of each of the teams; 0: all ranks are one.
  int team_named(const std::string& name) const { return name.empty() ? 0 : teams_.at(name); }
  static std::string teams_of(int team) {
    return team == 0 ? "all ranks" : fmt::format("teams of {} ranks", team);
  }

  // Rows that each team has a block of are as many on every rank: so a rank's own among its team's
  // are its own among all.
  void check_team_rows(int64_t rows, TextPlace place, const std::string& cause) {
    const int64_t left = rows % graph_.ranks;
    if (left == 0 || !not_dealt_.insert(cause).second) return;
    const int64_t below = rows - left;
    refuse(place, fmt::format("{} rows are dealt to teams, as many to each of {} ranks: take {}{}",
                              rows, graph_.ranks, below > 0 ? fmt::format("{} or ", below) : "",
                              below + graph_.ranks));
  }

  bool is_parameter_of_any(const std::string& tensor, bool is) const {
    return std::any_of(text_.stages.begin(), text_.stages.end(), [&](const StageText& stage) {
      for (size_t i = 0; i < stage.in.size(); ++i) {
        if (stage.in[i] == tensor && is_parameter(stage.kind, i) == is) return true;
      }
      return false;
    });
  }

  // What a team has of an input: of weights all, of others a block of the rows.
  void give_to_teams(Tensor& tensor, const InputText& input, const Causes& causes) {
    const int team = team_named(input.team);
    if (team == 0) return;
    if (tensor.matrices > 1 || input.held == Held::experts || input.held == Held::routed ||
        is_index(tensor.dtype)) {
      return refuse(input.place, fmt::format("{} is of {}: stacks and what goes by them are of all "
                                             "ranks",
                                             input.name, teams_of(team)));
    }
    const bool is_weight = is_parameter_of_any(input.name, true);
    if (is_weight && is_parameter_of_any(input.name, false)) {
      return refuse(input.place,
                    fmt::format("{} is a weight, which every team has, and has rows, which are "
                                "dealt to teams: give it as two inputs",
                                input.name));
    }
    if (!is_weight) check_team_rows(tensor.rows, input.place, causes.rows);
    if (!is_weight && input.held == Held::rows) return;  // as all ranks have them
    tensor.team = team;
    tensor.deals_rows = !is_weight;
  }

  // Whether the team's ranks have the operand of its stage among them. Own rows are a rank's in
  // whatever team.
  static bool is_of_team(const Tensor& tensor, int team, bool is_weight, Held needed) {
    if (tensor.team == team) return true;
    if (is_weight) return tensor.team == 0 && tensor.held == Held::whole;
    return needed == Held::rows || (tensor.team == 0 && tensor.held == Held::rows);
  }

  void check_divides(const Tensor& tensor, Held held, TextPlace place, const Causes& causes) {
    if (held == Held::cols && !are_shared(tensor, tensor.cols)) {
      refuse_share(tensor, tensor.cols, "columns", place, causes.cols);
    }
    if (held == Held::experts && !each_has_one(tensor.matrices) &&
        not_shared_.insert(causes.matrices).second) {
      int64_t less = tensor.matrices, more = tensor.matrices;
      while (less > 0 && !each_has_one(less)) --less;
      while (!each_has_one(more)) ++more;
      refuse(place, fmt::format("{} matrices of {} are dealt to {} ranks in blocks of {}, which "
                                "leaves none for the last: take {}{}",
                                tensor.matrices, tensor.name, graph_.ranks,
                                RowShards{tensor.matrices, graph_.ranks}.block(),
                                less > 0 ? fmt::format("{} or ", less) : "", more));
    }
  }
  // Columns, or rows of a weight. Those of a stack must divide.
  bool are_shared(const Tensor& tensor, int64_t size) const {
    const ColShards shares = graph_.shares_of(size, tensor.unit, tensor.team);
    return shares.are_even() || (tensor.matrices == 1 && tensor.team == 0 && shares.fit());
  }
  bool each_has_one(int64_t matrices) const {
    return RowShards{matrices, graph_.ranks}.size(graph_.ranks - 1) > 0;
  }
  // Once for each cause, however many tensors have it.
  void refuse_share(const Tensor& tensor, int64_t size, std::string_view what, TextPlace place,
                    const std::string& cause) {
    if (!not_shared_.insert(cause).second) return;
    if (tensor.team > 0) {
      const int64_t below = size / tensor.team * tensor.team;
      return refuse(
          place, fmt::format("{} {} of {} are dealt to teams of {} ranks, which must "
                             "divide them: take {}{}",
                             size, what, tensor.name, tensor.team,
                             below > 0 ? fmt::format("{} or ", below) : "", below + tensor.team));
    }
    const std::string dealt =
        fmt::format("{} {} of {} are dealt to {} ranks", size, what, tensor.name, graph_.ranks);
    if (tensor.matrices == 1) {
      const ColShards shares = graph_.shares_of(size, tensor.unit);
      return refuse(place, fmt::format("{} {}", dealt, why_not_dealt(shares, "")));
    }
    // Rows that are gathered stay of whole 16 bytes where they are cut.
    const int64_t step = graph_.ranks * kRoutedRowBytes / num_bytes(graph_.dtype);
    const int64_t below = size / step * step, above = below + step;
    const std::string near =
        below > 0 ? fmt::format("{} or {}", below, above) : std::to_string(above);
    refuse(place, fmt::format("{}, and those of a stack must divide: take {}", dealt, near));
  }

  void add_input(const InputText& input) {
    Tensor tensor{
        input.name, extent(input.rows, input.place),   extent(input.cols, input.place), input.held,
        -1,         input.dtype.value_or(graph_.dtype)};
    Causes causes{input.rows.text(), input.cols.text()};
    if (input.matrices) {
      tensor.matrices = extent(*input.matrices, input.place);
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
    give_to_teams(tensor, input, causes);
    // Indices are dealt as the tables are that they look up in.
    if (!is_index(tensor.dtype)) check_divides(tensor, tensor.held, input.place, causes);
    add(std::move(tensor), input.place, std::move(causes));
  }

  // Of what a stage makes: columns of one table stay together, also in what follows element by
  // element.
  static int64_t unit_of(StageKind kind, const std::vector<const Tensor*>& in) {
    if (looks_up(kind)) return in[1]->cols;
    return multiplies(kind) ? 0 : in[0]->unit;
  }

  // Where ranks do not divide tables, their columns are dealt otherwise than others of as many.
  void check_dealt_alike(const StageText& text, const std::vector<const Tensor*>& in,
                         const StageRule& rule) {
    for (size_t i = 0; i < in.size(); ++i) {
      if (in[i]->held != Held::cols || rule.needs[i] != Held::cols || in[i]->team > 0) continue;
      const ColShards of_first = graph_.shares_of(in[0]->cols, in[0]->unit);
      const ColShards plain = graph_.shares_of(in[i]->cols);
      const ColShards own = graph_.shares_of(in[i]->cols, in[i]->unit);
      const ColShards& as = multiplies(text.kind) ? plain : of_first;
      if (own.block() == as.block()) continue;
      refuse(text.in_place,
             fmt::format("the columns of {} are dealt by tables, and other operands of {} are not: "
                         "take as many tables that {} ranks divide them",
                         in[i]->unit > 0 ? in[i]->name : in[0]->name, to_string(text.kind),
                         graph_.ranks));
    }
  }

  void set_unit_of_ids(int ids, int64_t tables, TextPlace place) {
    Tensor& of = graph_.tensors[static_cast<size_t>(ids)];
    const int64_t unit = std::max<int64_t>(1, of.cols / tables);
    if (of.unit != 0 && of.held == Held::cols &&
        graph_.shares_of(of.cols, of.unit).block() != graph_.shares_of(of.cols, unit).block()) {
      refuse(place, fmt::format("{} is dealt to ranks for other tables already: give the ids of "
                                "each look-up as a tensor of their own",
                                of.name));
    }
    of.unit = unit;
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
    if (text.k) stage.k = extent(*text.k, text.in_place);
    if (text.groups) stage.groups = extent(*text.groups, text.in_place);
    stage.best = text.best ? extent(*text.best, text.in_place) : stage.groups;
    if (text.slices) stage.slices = extent(*text.slices, text.in_place);
    if (text.experts) stage.experts = extent(*text.experts, text.in_place);
    stage.scale = text.scale.value_or(1);
    stage.normalises = text.normalises.value_or(true);
    std::vector<const Tensor*> in;
    for (const std::string& name : text.in) {
      stage.in.push_back(ids_.at(name));
      in.push_back(&graph_.tensors[static_cast<size_t>(stage.in.back())]);
    }
    for (const Tensor* const one : in) {
      if (stage.team == 0) stage.team = one->team;
    }
    const StageRule rule = rule_of_sums(stage, in);
    if (!rule.fault.empty()) refuse(text.in_place, rule.fault);
    if (multiplies(text.kind) && in[1]->held == Held::rows && !are_shared(*in[1], in[1]->rows)) {
      refuse_share(*in[1], in[1]->rows, "rows", text.in_place, causes_of(stage.in[1]).rows);
    }
    if (looks_up(text.kind)) {
      set_unit_of_ids(stage.in[0], in[1]->matrices, text.in_place);
    } else if (rule.fault.empty()) {
      check_dealt_alike(text, in, rule);
    }
    for (size_t i = 0; i < in.size(); ++i) {
      const bool is_term = are_sums_of_some(*in[i]) && rule.needs[i] == Held::routed;
      if (!is_of_team(*in[i], stage.team, is_parameter(text.kind, i), rule.needs[i])) {
        refuse(
            text.in_place,
            fmt::format("{} needs {} held by {}, and it is held as {} by {}: there is no edge from "
                        "one to the other",
                        to_string(text.kind), in[i]->name, teams_of(stage.team),
                        to_string(in[i]->held), teams_of(in[i]->team)));
        continue;
      }
      if (!is_term && edge_between(in[i]->held, rule.needs[i])) continue;
      refuse(text.in_place,
             fmt::format("{} needs {} held as {}, and it is {}: there is no edge from one to the "
                         "other",
                         to_string(text.kind), in[i]->name, to_string(rule.needs[i]),
                         is_term ? "a sum over some experts" : to_string(in[i]->held)));
    }
    if (stage.team > 0) check_team_rows(rule.rows, text.in_place, causes_of(stage.in[0]).rows);
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
    Causes causes = causes_of(stage.in[0]);
    if (multiplies(text.kind)) causes.cols = causes_of(stage.in[1]).rows;
    if (looks_up(text.kind)) causes.cols = causes_of(stage.in[1]).matrices;
    check_divides(made, made.held, text.place, causes);
    graph_.stages.push_back(std::move(stage));
    add(std::move(made), text.place, std::move(causes));
  }

  // Products that experts are chosen by, with a bias or without, and nothing else reads, stay in
  // fp32.
  void keep_scores() {
    for (Tensor& tensor : graph_.tensors) {
      if (tensor.stage < 0 || tensor.held == Held::partial) continue;
      const StageKind kind = graph_.stage(tensor.stage).kind;
      if (kind != StageKind::gemm && kind != StageKind::bias) continue;
      const int id = ids_.at(tensor.name);
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
    const auto found = ids_.find(output.tensor);
    if (found == ids_.end()) return;
    const Tensor& tensor = graph_.tensors[static_cast<size_t>(found->second)];
    check_divides(tensor, output.held, output.place, causes_of(found->second));
    if (const int team = team_named(output.team);
        output.held != Held::rows && tensor.team != team) {
      refuse(output.place, fmt::format("output {} is to be held by {}, and it is made by {}: there "
                                       "is no edge from one to the other",
                                       output.tensor, teams_of(team), teams_of(tensor.team)));
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

  const GraphText& text_;
  Operator graph_;
  std::map<std::string, int, std::less<>> ids_;
  std::map<std::string, int> teams_;  // by name: ranks of each; 0: all
  std::set<std::string> not_dealt_;   // causes of rows that ranks do not divide
  const Causes& causes_of(int tensor) const { return causes_[static_cast<size_t>(tensor)]; }

  std::vector<Causes> causes_;        // by tensor
  std::set<std::string> not_shared_;  // causes of what does not divide
  std::vector<std::string> reasons_;
};

}  // namespace

Operator make_graph(std::shared_ptr<const GraphText> text, const Sizes& sizes, int ranks,
                    DType dtype) {
  return Binder(std::move(text), ranks, dtype).bind(sizes);
}

}  // namespace stretto

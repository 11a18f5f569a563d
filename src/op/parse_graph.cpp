// The text form of graphs; docs/graph-format.md is its grammar, print_graph.cpp its inverse.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "core/text.h"
#include "op/graph_words.h"
#include "op/stage_attributes.h"
#include "stretto/error.h"

namespace stretto {
namespace {

constexpr double kUsualEps = 1e-6;

constexpr std::string_view kStageNames[] = {
#define STRETTO_NAME(name, text, operands, goes, meaning) text,
    STRETTO_STAGES(STRETTO_NAME)
#undef STRETTO_NAME
};
constexpr std::string_view kFirstWords[] = {"graph", "team", "input", "output"};

class GraphParser {
 public:
  GraphParser(std::string_view text, std::string_view file) : text_(text), words_(*graph_) {
    graph_->file = file;
  }

  std::shared_ptr<const GraphText> parse() {
    for (const std::string_view line : split(text_, '\n')) {
      words_.next_line(line);
      if (!words_.is_at_end()) statement();
      if (words_.has_enough_reasons()) break;
    }
    words_.go_to_end();
    if (words_.reasons().empty()) check_whole();
    if (!words_.reasons().empty()) throw UsageError(join(words_.reasons(), "; "));
    graph_->canonical = print(*graph_);
    return graph_;
  }

 private:
  void statement() {
    const TextPlace where = words_.place();
    std::string word;
    if (!words_.name(word, "graph, team, input, output or NAME = STAGE")) return;
    words_.skip_blanks();
    const bool is_stage = words_.is_at('=');
    if (graph_->name.empty() && !(word == "graph" && !is_stage)) {
      words_.refuse_at(where, "expected a graph to begin with: graph NAME SIZE...");
      graph_->name = "?";
    }
    if (is_stage) {
      words_.skip();
      return stage(std::move(word), where);
    }
    if (word == "graph") return head(where);
    if (word == "team") return team();
    if (word == "input") return input();
    if (word == "output") return output();
    words_.refuse_at(where, unknown_word("word at the beginning of a line", word, kFirstWords));
  }

  void head(TextPlace where) {
    if (!graph_->name.empty()) return words_.refuse_at(where, "the graph has its name already");
    if (!words_.name(graph_->name, "the graph's name")) {
      graph_->name = "?";
      return;
    }
    while (words_.skip_blanks()) {
      const TextPlace at = words_.place();
      std::string size;
      if (!words_.name(size, "the name of a size")) return;
      if (size == "ranks" || size == "dtype") {
        words_.refuse_at(at, fmt::format("{} is every operator's; call the size otherwise", size));
      } else if (std::count(graph_->sizes.begin(), graph_->sizes.end(), size)) {
        words_.refuse_at(at, fmt::format("size {} is there twice", size));
      }
      graph_->sizes.push_back(size);
    }
    if (graph_->sizes.empty()) words_.expected("at least one size, that of the rows");
    if (graph_->sizes.size() > kMostSizes) {
      words_.refuse_at(where, fmt::format("a graph has at most {} sizes", kMostSizes));
    }
  }

  void team() {
    TeamText team;
    words_.skip_blanks();
    team.place = words_.place();
    if (!words_.name(team.name, "the name of a team") || !words_.extent(team.ranks) ||
        !words_.end_of_line())
      return;
    const auto is_it = [&](const TeamText& other) { return other.name == team.name; };
    if (std::any_of(graph_->teams.begin(), graph_->teams.end(), is_it)) {
      return words_.refuse_at(team.place, fmt::format("team {} is there twice", team.name));
    }
    graph_->teams.push_back(std::move(team));
  }

  void input() {
    InputText input;
    words_.skip_blanks();
    input.place = words_.place();
    if (!words_.name(input.name, "the name of a tensor") || !shape(input) ||
        !words_.held(input.held) || !words_.of_team(input.team) || !words_.own_type(input.dtype) ||
        !words_.end_of_line()) {
      made_.insert(input.name);
      return;
    }
    if (make(input.name, input.place)) graph_->inputs.push_back(std::move(input));
  }

  // [rows, columns], or [matrices, rows, columns] of a stack.
  bool shape(InputText& input) {
    if (!words_.character('[') || !words_.extent(input.rows) || !words_.character(',') ||
        !words_.extent(input.cols)) {
      return false;
    }
    words_.skip_blanks();
    if (words_.is_at(',')) {
      words_.skip();
      input.matrices = std::exchange(input.rows, std::exchange(input.cols, {}));
      if (!words_.extent(input.cols)) return false;
    }
    return words_.character(']');
  }

  void stage(std::string out, TextPlace where) {
    StageText stage;
    stage.place = where;
    stage.out = std::move(out);
    words_.skip_blanks();
    const TextPlace at = words_.place();
    std::string kind;
    if (!words_.name(kind, "a kind of stage")) return;
    const auto found = std::find(std::begin(kStageNames), std::end(kStageNames), kind);
    if (found == std::end(kStageNames)) {
      make(stage.out, where);
      return words_.refuse_at(at, unknown_word("kind of stage", kind, kStageNames));
    }
    stage.kind = static_cast<StageKind>(found - std::begin(kStageNames));
    if (stage.kind == StageKind::norm) stage.eps = kUsualEps;
    words_.skip_blanks();
    stage.in_place = words_.place();
    const bool good = operands(stage);
    if (!make(stage.out, where) || !good) return;
    if (graph_->stages.size() == kMostStages) {
      words_.refuse_at(where, fmt::format("a graph has at most {} stages", kMostStages));
      return words_.stop();
    }
    graph_->stages.push_back(std::move(stage));
  }

  bool operands(StageText& stage) {
    while (words_.skip_blanks()) {
      const TextPlace at = words_.place();
      std::string word;
      if (!words_.name(word, "the name of a tensor")) return false;
      if (words_.is_at('=')) {
        words_.skip();
        if (!read_attribute(words_, stage, word, at)) return false;
        continue;
      }
      if (!made_.count(word)) {
        std::vector<std::string_view> known(made_.begin(), made_.end());
        words_.refuse_at(at,
                         word == stage.out
                             ? fmt::format("tensor {} is made by this very stage: a graph has no "
                                           "cycles",
                                           word)
                             : unknown_word("tensor", word, known) +
                                   "; a tensor is made in a line above its use");
      }
      stage.in.push_back(std::move(word));
    }
    if (std::string missing = missing_attribute(stage); !missing.empty()) {
      words_.refuse_at(stage.in_place, std::move(missing));
      return false;
    }
    const size_t needed = num_operands(stage.kind);
    if (stage.in.size() == needed) return true;
    words_.refuse_at(stage.in_place,
                     fmt::format("{} takes {} tensor{}, found {}", to_string(stage.kind), needed,
                                 needed == 1 ? "" : "s", stage.in.size()));
    return false;
  }

  void output() {
    OutputText output;
    words_.skip_blanks();
    output.place = words_.place();
    if (!words_.name(output.tensor, "the name of a tensor") || !words_.held(output.held) ||
        !words_.of_team(output.team) || !words_.end_of_line()) {
      return;
    }
    if (!made_.count(output.tensor)) {
      std::vector<std::string_view> known(made_.begin(), made_.end());
      return words_.refuse_at(output.place, unknown_word("tensor", output.tensor, known));
    }
    graph_->outputs.push_back(std::move(output));
  }

  bool make(const std::string& tensor, TextPlace where) {
    if (tensor.find_first_of("-.") != std::string::npos) {  // it names a buffer of plans, too
      words_.refuse_at(
          where,
          fmt::format("tensor {}: a tensor's name has letters, digits and '_' only", tensor));
    }
    if (made_.insert(tensor).second) return true;
    words_.refuse_at(where, fmt::format("tensor {} is made twice", tensor));
    return false;
  }

  void check_whole() {
    const auto refuse = [&](std::string reason) {
      words_.refuse_at(words_.place(), std::move(reason));
    };
    if (graph_->name.empty()) return refuse("expected a graph, found nothing");
    if (graph_->stages.empty()) return refuse("a graph needs at least one stage");
    if (graph_->outputs.empty()) return refuse("a graph needs at least one output");
    std::set<std::string_view> used;
    for (const StageText& stage : graph_->stages) used.insert(stage.in.begin(), stage.in.end());
    std::set<std::string_view> given;
    for (const OutputText& output : graph_->outputs) {
      if (!given.insert(output.tensor).second) {
        words_.refuse_at(output.place,
                         fmt::format("tensor {} is an output already", output.tensor));
      }
      for (const InputText& input : graph_->inputs) {
        if (input.name != output.tensor) continue;
        words_.refuse_at(
            output.place,
            fmt::format("tensor {} is an input; an output is what a stage makes", output.tensor));
      }
    }
    used.insert(given.begin(), given.end());
    for (const TeamText& team : graph_->teams) {
      const auto is_of = [&](const InputText& input) { return input.team == team.name; };
      if (std::none_of(graph_->inputs.begin(), graph_->inputs.end(), is_of)) {
        words_.refuse_at(team.place, fmt::format("no input is of team {}", team.name));
      }
    }
    for (const InputText& input : graph_->inputs) {
      if (!used.count(input.name)) {
        words_.refuse_at(input.place, fmt::format("no stage uses input {}", input.name));
      }
    }
    for (const StageText& stage : graph_->stages) {
      if (!used.count(stage.out)) {
        words_.refuse_at(stage.place,
                         fmt::format("nothing uses tensor {}; make it an output", stage.out));
      }
    }
  }

  std::string_view text_;
  std::shared_ptr<GraphText> graph_ = std::make_shared<GraphText>();
  GraphWords words_;
  std::set<std::string, std::less<>> made_;
};

}  // namespace

std::string prefix(const GraphText& text, TextPlace place) {
  return fmt::format("{}:{}:{}: ", text.file, place.line, place.column);
}

std::shared_ptr<const GraphText> parse_graph(std::string_view text, std::string_view file_name) {
  constexpr size_t kMostBytes = size_t{1} << 20;
  if (text.size() > kMostBytes) {
    throw UsageError(fmt::format("{}: a graph has at most {} bytes of text, found {}", file_name,
                                 kMostBytes, text.size()));
  }
  if (text.starts_with("\xef\xbb\xbf")) {
    throw UsageError(fmt::format(
        "{}:1:1: the text begins with a byte order mark: save it as UTF-8 without one", file_name));
  }
  return GraphParser(text, file_name).parse();
}

}  // namespace stretto

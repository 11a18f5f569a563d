// The text form of graphs; docs/graph-format.md is its grammar, print_graph.cpp its inverse. All
// lines are read, whatever is wrong with some.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "core/text.h"
#include "op/graph_uses.h"
#include "op/graph_words.h"
#include "op/read_edge_kernel.h"
#include "op/read_graph.h"
#include "op/read_input.h"
#include "op/read_stage.h"
#include "stretto/error.h"

namespace stretto {
namespace {

constexpr std::string_view kFirstWords[] = {"graph", "team", "kernel", "input", "output"};

class GraphParser {
 public:
  GraphParser(std::string_view text, std::string_view file) : text_(text), words_(*graph_) {
    graph_->file = file;
    graph_->knows_sizes = false;  // before its head
  }

  std::shared_ptr<const GraphText> read() {
    for (const std::string_view line : split(text_, '\n')) {
      words_.next_line(line);
      if (words_.is_at_end()) continue;
      const size_t before = words_.num_refused();
      used_ = words_.line();
      statement();
      if (words_.num_refused() > before) uses_.use_words(used_);
    }
    words_.go_to_end();
    check_whole();
    if (graph_->name.empty()) graph_->name = "?";
    // Nobody knows which of two lines is meant.
    std::erase_if(graph_->inputs, [&](const InputText& one) { return is_twice(one.name); });
    std::erase_if(graph_->stages, [&](const StageText& one) { return is_twice(one.out); });
    graph_->faults = words_.reasons();
    graph_->doubtful = uses_.take_doubtful();
    if (graph_->faults.empty()) graph_->canonical = print(*graph_);
    return graph_;
  }

 private:
  void statement() {
    const TextPlace where = words_.place();
    std::string word;
    if (!words_.name(word, "graph, team, kernel, input, output or NAME = STAGE"))
      return lose_line();
    words_.skip_blanks();
    const bool is_stage = words_.is_at('=');
    const bool is_headless = !has_head_ && (word != "graph" || is_stage);
    if (is_headless) {
      words_.refuse_at(where, "expected a graph to begin with: graph NAME SIZE...");
      has_head_ = true;
    }
    if (is_stage) {
      words_.skip();
      return stage(word, where);
    }
    if (word == "graph") return head(where);
    if (word == "team") return team();
    if (word == "kernel") return kernel();
    if (word == "input") return input();
    if (word == "output") return output();
    lose_line();
    if (is_headless) return;
    words_.refuse_at(where, unknown_word("word at the beginning of a line", word, kFirstWords));
  }

  // Whatever it may have made, nothing else is refused for the want of that.
  void lose_line() {
    uses_.make_words(words_.line());
    words_.doubt_teams();
    is_line_lost_ = true;
    has_head_ = true;
  }

  void head(TextPlace where) {
    // One that stands too low says its sizes, too.
    if (!graph_->name.empty()) return words_.refuse_at(where, "the graph has its name already");
    has_head_ = true;
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
      if (graph_->sizes.size() == kMostSizes) {
        return words_.refuse_at(where, fmt::format("a graph has at most {} sizes", kMostSizes));
      }
      graph_->sizes.push_back(size);
    }
    if (graph_->sizes.empty()) words_.expected("at least one size, that of the rows");
    graph_->knows_sizes = !graph_->sizes.empty();
  }

  void team() {
    TeamText team;
    words_.skip_blanks();
    team.place = words_.place();
    if (!words_.name(team.name, "the name of a team") || !words_.extent(team.ranks) ||
        !words_.end_of_line()) {
      return words_.doubt_teams();
    }
    const auto is_it = [&](const TeamText& other) { return other.name == team.name; };
    if (std::any_of(graph_->teams.begin(), graph_->teams.end(), is_it)) {
      return words_.refuse_at(team.place, fmt::format("team {} is there twice", team.name));
    }
    graph_->teams.push_back(std::move(team));
  }

  void kernel() {
    std::optional<EdgeKernelText> kernel = read_edge_kernel(words_);
    if (!kernel) return;
    const auto is_it = [&](const EdgeKernelText& other) { return other.name == kernel->name; };
    if (std::any_of(graph_->kernels.begin(), graph_->kernels.end(), is_it)) {
      return words_.refuse_at(kernel->place, fmt::format("kernel {} is there twice", kernel->name));
    }
    if (graph_->kernels.size() == kMostEdgeKernels) {
      return words_.refuse_at(kernel->place,
                              fmt::format("a graph names at most {} kernels", kMostEdgeKernels));
    }
    graph_->kernels.push_back(std::move(*kernel));
  }

  void input() {
    InputText input;
    words_.skip_blanks();
    input.place = words_.place();
    if (!words_.name(input.name, "the name of a tensor")) return lose_line();
    used_ = words_.rest();
    const bool is_new = make(input.name, input.place, false);
    if (!read_input(words_, input)) return;
    if (is_new) graph_->inputs.push_back(std::move(input));
  }

  void stage(const std::string& out, TextPlace where) {
    used_ = words_.rest();
    if (++num_stages_ == kMostStages + 1) {
      words_.refuse_at(where, fmt::format("a graph has at most {} stages", kMostStages));
    }
    const bool is_new = make(out, where, true);
    std::optional<StageText> stage = read_stage(words_, uses_);
    if (!stage || !is_new || num_stages_ > kMostStages) return;
    stage->out = out;
    stage->place = where;
    graph_->stages.push_back(std::move(*stage));
  }

  void output() {
    OutputText output;
    words_.skip_blanks();
    output.place = words_.place();
    has_output_ = true;
    if (!words_.name(output.tensor, "the name of a tensor")) return uses_.miss_use();
    uses_.give(output.tensor, output.place);
    if (!outputs_.insert(output.tensor).second) {
      words_.refuse_at(output.place, fmt::format("tensor {} is an output already", output.tensor));
    }
    if (!words_.held(output.held) || !words_.of_team(output.team) || !words_.end_of_line()) return;
    graph_->outputs.push_back(std::move(output));
  }

  bool is_twice(const std::string& tensor) const { return twice_.count(tensor) > 0; }

  bool make(const std::string& tensor, TextPlace where, bool is_stage) {
    if (tensor.find_first_of("-.") != std::string::npos) {  // it names a buffer of plans, too
      words_.refuse_at(
          where,
          fmt::format("tensor {}: a tensor's name has letters, digits and '_' only", tensor));
    }
    if (uses_.make(tensor, where, is_stage)) return true;
    words_.refuse_at(where, fmt::format("tensor {} is made twice", tensor));
    twice_.insert(tensor);
    return false;
  }

  void check_whole() {
    const TextPlace end = words_.place();
    if (!has_head_) return words_.refuse_at(end, "expected a graph, found nothing");
    const bool has_all = num_stages_ > 0 && has_output_;
    if (num_stages_ == 0 && !is_line_lost_) {
      words_.refuse_at(end, "a graph needs at least one stage");
    } else if (!has_output_ && !is_line_lost_) {
      words_.refuse_at(end, "a graph needs at least one output");
    }
    uses_.say_makers(words_);
    std::set<std::string_view> inputs, teams;
    for (const InputText& input : graph_->inputs) {
      inputs.insert(input.name);
      teams.insert(input.team);
    }
    for (const OutputText& output : graph_->outputs) {
      if (!inputs.count(output.tensor)) continue;
      words_.refuse_at(
          output.place,
          fmt::format("tensor {} is an input; an output is what a stage makes", output.tensor));
    }
    for (const TeamText& team : graph_->teams) {
      if (teams.count(team.name) || uses_.may_use(team.name)) continue;
      words_.refuse_at(team.place, fmt::format("no input is of team {}", team.name));
    }
    if (has_all) uses_.say_unused(words_);
  }

  std::string_view text_;
  std::shared_ptr<GraphText> graph_ = std::make_shared<GraphText>();
  GraphWords words_;
  GraphUses uses_;
  std::string_view used_;  // where a line may say what it uses
  bool has_head_ = false;  // or was refused for that
  bool has_output_ = false;
  bool is_line_lost_ = false;  // which may be anything
  size_t num_stages_ = 0;
  std::set<std::string, std::less<>> twice_, outputs_;
};

}  // namespace

std::string prefix(const GraphText& text, TextPlace place) {
  return fmt::format("{}:{}:{}: ", text.file, place.line, place.column);
}

std::shared_ptr<const GraphText> read_graph(std::string_view text, std::string_view file_name) {
  constexpr size_t kMostBytes = size_t{1} << 20;
  if (text.size() > kMostBytes) {
    throw UsageError(fmt::format("{}: a graph has at most {} bytes of text, found {}", file_name,
                                 kMostBytes, text.size()));
  }
  if (text.starts_with("\xef\xbb\xbf")) {
    throw UsageError(fmt::format(
        "{}:1:1: the text begins with a byte order mark: save it as UTF-8 without one", file_name));
  }
  return GraphParser(text, file_name).read();
}

std::shared_ptr<const GraphText> parse_graph(std::string_view text, std::string_view file_name) {
  std::shared_ptr<const GraphText> graph = read_graph(text, file_name);
  if (!graph->faults.empty()) refuse_faults(graph);
  return graph;
}

}  // namespace stretto

// The text form of graphs; docs/graph-format.md is its grammar, print_graph.cpp its inverse.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <utility>

#include "core/text.h"
#include "op/graph_text.h"
#include "stretto/error.h"

namespace stretto {
namespace {

constexpr size_t kMostReasons = 20;
constexpr double kUsualEps = 1e-6;

constexpr std::string_view kHeldNames[] = {"whole", "rows", "cols", "experts", "routed"};
constexpr std::string_view kOwnTypes[] = {"fp32", "i32", "i64"};
constexpr std::string_view kStageNames[] = {
#define STRETTO_NAME(name, text, operands, goes, meaning) text,
    STRETTO_STAGES(STRETTO_NAME)
#undef STRETTO_NAME
};
constexpr std::string_view kFirstWords[] = {"graph", "team", "input", "output"};

// One line after another; what is wrong with one does not keep others from being read.
class GraphParser {
 public:
  GraphParser(std::string_view text, std::string_view file) : text_(text) { graph_->file = file; }

  std::shared_ptr<const GraphText> parse() {
    for (const std::string_view whole : split(text_, '\n')) {
      ++line_number_;
      line_ = whole.substr(0, whole.find('#'));
      while (!line_.empty() && (line_.back() == '\r' || blank(line_.back()))) {
        line_.remove_suffix(1);
      }
      at_ = 0;
      skip_blanks();
      if (at_ < line_.size()) line();
      if (reasons_.size() >= kMostReasons) break;
    }
    line_number_ = std::max(1, line_number_);
    at_ = 0;
    if (reasons_.empty()) check_whole();
    if (!reasons_.empty()) throw UsageError(join(reasons_, "; "));
    graph_->canonical = print(*graph_);
    return graph_;
  }

 private:
  static bool blank(char c) { return c == ' ' || c == '\t'; }
  void skip_blanks() {
    while (at_ < line_.size() && blank(line_[at_])) ++at_;
  }
  TextPlace place() const { return {line_number_, static_cast<int>(at_) + 1}; }

  void refuse_at(TextPlace where, std::string reason) {
    if (reasons_.size() < kMostReasons) reasons_.push_back(prefix(*graph_, where) + reason);
  }
  bool expected(std::string_view what) {
    const std::string_view rest = line_.substr(std::min(at_, line_.size()));
    refuse_at(place(), fmt::format("expected {}, found {}", what,
                                   rest.empty() ? "the end of the line" : quote(rest)));
    return false;
  }

  bool name(std::string& to, std::string_view what) {
    skip_blanks();
    size_t end = at_;
    if (end >= line_.size() || !is_name_start(line_[end])) return expected(what);
    while (end < line_.size() && is_name_char(line_[end])) ++end;
    constexpr size_t kLongest = 64;
    if (end - at_ > kLongest) return expected(fmt::format("{} of at most 64 characters", what));
    to = line_.substr(at_, end - at_);
    at_ = end;
    return true;
  }
  bool character(char c) {
    skip_blanks();
    if (at_ >= line_.size() || line_[at_] != c) return expected(fmt::format("'{}'", c));
    ++at_;
    return true;
  }
  bool end_of_line() {
    skip_blanks();
    return at_ == line_.size() || expected("the end of the line");
  }
  bool extent(Extent& to) {
    std::string why;
    skip_blanks();
    const size_t begin = at_;
    const std::optional<Extent> read = Extent::parse(line_, at_, why);
    if (!read) return expected(why);
    to = *read;
    for (const Extent::Name& one : to.names()) {
      if (std::count(graph_->sizes.begin(), graph_->sizes.end(), one.name)) continue;
      std::vector<std::string_view> known(graph_->sizes.begin(), graph_->sizes.end());
      refuse_at({line_number_, static_cast<int>(begin) + 1}, unknown_word("size", one.name, known));
    }
    return true;
  }
  bool held(Held& to) {
    skip_blanks();
    const TextPlace where = place();
    std::string word;
    if (!name(word, "how it is held: whole, rows, cols, experts or routed")) return false;
    for (const Held one : {Held::whole, Held::rows, Held::cols, Held::experts, Held::routed}) {
      if (word != to_string(one)) continue;
      to = one;
      return true;
    }
    refuse_at(where, unknown_word("way to hold a tensor", word, kHeldNames));
    return false;
  }
  // "of TEAM", where it is there.
  bool of_team(std::string& to) {
    skip_blanks();
    const std::string_view rest = line_.substr(std::min(at_, line_.size()));
    if (!rest.starts_with("of") || (rest.size() > 2 && !blank(rest[2]))) return true;
    at_ += 2;
    skip_blanks();
    const TextPlace where = place();
    if (!name(to, "the name of a team")) return false;
    std::vector<std::string_view> known;
    for (const TeamText& team : graph_->teams) known.push_back(team.name);
    if (std::count(known.begin(), known.end(), to)) return true;
    refuse_at(where, known.empty()
                         ? fmt::format("no team {}: a line above says it, as in \"team {} 4\"",
                                       quote(to), to)
                         : unknown_word("team", to, known));
    return false;
  }

  void line() {
    const TextPlace where = place();
    std::string word;
    if (!name(word, "graph, team, input, output or NAME = STAGE")) return;
    skip_blanks();
    const bool is_stage = at_ < line_.size() && line_[at_] == '=';
    if (graph_->name.empty() && !(word == "graph" && !is_stage)) {
      refuse_at(where, "expected a graph to begin with: graph NAME SIZE...");
      graph_->name = "?";
    }
    if (is_stage) {
      ++at_;
      return stage(std::move(word), where);
    }
    if (word == "graph") return head(where);
    if (word == "team") return team();
    if (word == "input") return input();
    if (word == "output") return output();
    refuse_at(where, unknown_word("word at the beginning of a line", word, kFirstWords));
  }

  void head(TextPlace where) {
    if (!graph_->name.empty()) return refuse_at(where, "the graph has its name already");
    if (!name(graph_->name, "the graph's name")) {
      graph_->name = "?";
      return;
    }
    while (skip_blanks(), at_ < line_.size()) {
      const TextPlace at = place();
      std::string size;
      if (!name(size, "the name of a size")) return;
      if (size == "ranks" || size == "dtype") {
        refuse_at(at, fmt::format("{} is every operator's; call the size otherwise", size));
      } else if (std::count(graph_->sizes.begin(), graph_->sizes.end(), size)) {
        refuse_at(at, fmt::format("size {} is there twice", size));
      }
      graph_->sizes.push_back(size);
    }
    if (graph_->sizes.empty()) expected("at least one size, that of the rows");
    if (graph_->sizes.size() > kMostSizes) {
      refuse_at(where, fmt::format("a graph has at most {} sizes", kMostSizes));
    }
  }

  void team() {
    TeamText team;
    skip_blanks();
    team.place = place();
    if (!name(team.name, "the name of a team") || !extent(team.ranks) || !end_of_line()) return;
    const auto is_it = [&](const TeamText& other) { return other.name == team.name; };
    if (std::any_of(graph_->teams.begin(), graph_->teams.end(), is_it)) {
      return refuse_at(team.place, fmt::format("team {} is there twice", team.name));
    }
    graph_->teams.push_back(std::move(team));
  }

  void input() {
    InputText input;
    skip_blanks();
    input.place = place();
    if (!name(input.name, "the name of a tensor") || !shape(input) || !held(input.held) ||
        !of_team(input.team) || !own_type(input) || !end_of_line()) {
      made_.insert(input.name);
      return;
    }
    if (make(input.name, input.place)) graph_->inputs.push_back(std::move(input));
  }

  // [rows, columns], or [matrices, rows, columns] of a stack.
  bool shape(InputText& input) {
    if (!character('[') || !extent(input.rows) || !character(',') || !extent(input.cols)) {
      return false;
    }
    skip_blanks();
    if (at_ < line_.size() && line_[at_] == ',') {
      ++at_;
      input.matrices = std::exchange(input.rows, std::exchange(input.cols, {}));
      if (!extent(input.cols)) return false;
    }
    return character(']');
  }

  // A type that the operator does not decide.
  bool own_type(InputText& input) {
    skip_blanks();
    if (at_ == line_.size()) return true;
    const TextPlace where = place();
    std::string word;
    if (!name(word, "an element type or the end of the line")) return false;
    if (std::count(std::begin(kOwnTypes), std::end(kOwnTypes), word)) {
      input.dtype = any_dtype_from(word);
      return true;
    }
    refuse_at(where, unknown_word("type of a tensor", word, kOwnTypes));
    return false;
  }

  void stage(std::string out, TextPlace where) {
    StageText stage;
    stage.place = where;
    stage.out = std::move(out);
    skip_blanks();
    const TextPlace at = place();
    std::string kind;
    if (!name(kind, "a kind of stage")) return;
    const auto found = std::find(std::begin(kStageNames), std::end(kStageNames), kind);
    if (found == std::end(kStageNames)) {
      make(stage.out, where);
      return refuse_at(at, unknown_word("kind of stage", kind, kStageNames));
    }
    stage.kind = static_cast<StageKind>(found - std::begin(kStageNames));
    if (stage.kind == StageKind::norm) stage.eps = kUsualEps;
    skip_blanks();
    stage.in_place = place();
    const bool good = operands(stage);
    if (!make(stage.out, where) || !good) return;
    if (graph_->stages.size() == kMostStages) {
      refuse_at(where, fmt::format("a graph has at most {} stages", kMostStages));
      reasons_.resize(std::max(reasons_.size(), kMostReasons));  // the rest is not worth reading
      return;
    }
    graph_->stages.push_back(std::move(stage));
  }

  bool operands(StageText& stage) {
    while (skip_blanks(), at_ < line_.size()) {
      const TextPlace at = place();
      std::string word;
      if (!name(word, "the name of a tensor")) return false;
      if (at_ < line_.size() && line_[at_] == '=') {
        ++at_;
        if (!attribute(stage, word, at)) return false;
        continue;
      }
      if (!made_.count(word)) {
        std::vector<std::string_view> known(made_.begin(), made_.end());
        refuse_at(at, word == stage.out
                          ? fmt::format("tensor {} is made by this very stage: a graph has no "
                                        "cycles",
                                        word)
                          : unknown_word("tensor", word, known) +
                                "; a tensor is made in a line above its use");
      }
      stage.in.push_back(std::move(word));
    }
    if (chooses_experts(stage.kind) && !stage.k) {
      refuse_at(stage.in_place,
                fmt::format("{} needs k=, how many experts a row chooses", to_string(stage.kind)));
      return false;
    }
    if (slices_choices(stage.kind) && !stage.slices) {
      refuse_at(stage.in_place, fmt::format("{} needs slices=, how many each expert is cut in",
                                            to_string(stage.kind)));
      return false;
    }
    if (takes_experts(stage.kind) && !stage.experts) {
      refuse_at(stage.in_place,
                fmt::format("{} needs experts=, how many there are", to_string(stage.kind)));
      return false;
    }
    const size_t needed = num_operands(stage.kind);
    if (stage.in.size() == needed) return true;
    refuse_at(stage.in_place, fmt::format("{} takes {} tensor{}, found {}", to_string(stage.kind),
                                          needed, needed == 1 ? "" : "s", stage.in.size()));
    return false;
  }

  static bool takes_experts(StageKind kind) {
    return kind == StageKind::slice_ids || kind == StageKind::permute || kind == StageKind::count;
  }
  static std::string_view attributes_of(StageKind kind) {
    if (kind == StageKind::norm) return "eps";
    if (chooses_experts(kind)) return "k, groups and best";
    if (kind == StageKind::slice_ids) return "experts and slices";
    if (kind == StageKind::slice_weights) return "slices";
    if (takes_experts(kind)) return "experts";
    return weighs_experts(kind) ? "scale and normalise" : "";
  }

  bool attribute(StageText& stage, std::string_view key, TextPlace where) {
    if (stage.kind == StageKind::norm && key == "eps") {
      return decimal(stage.eps, 1, "a number above 0 and up to 1");
    }
    if (chooses_experts(stage.kind)) {
      if (key == "k") return extent(stage.k.emplace());
      if (key == "groups") return extent(stage.groups.emplace());
      if (key == "best") return extent(stage.best.emplace());
    }
    if (slices_choices(stage.kind) && key == "slices") return extent(stage.slices.emplace());
    if (takes_experts(stage.kind) && key == "experts") return extent(stage.experts.emplace());
    if (weighs_experts(stage.kind) && key == "scale") {
      return decimal(stage.scale.emplace(), 1e9, "a number above 0 and up to 1e9");
    }
    if (weighs_experts(stage.kind) && key == "normalise") {
      const std::string_view word = line_.substr(at_, line_.find_first_of(" \t", at_) - at_);
      if (word != "0" && word != "1") return expected("0 or 1");
      stage.normalises = word == "1";
      ++at_;
      return true;
    }
    const std::string_view known = attributes_of(stage.kind);
    refuse_at(where, fmt::format("{} has no attribute {}{}{}", to_string(stage.kind), quote(key),
                                 known.empty() ? "" : "; it has ", known));
    return false;
  }

  bool decimal(double& to, double most, std::string_view what) {
    const char* begin = line_.data() + at_;
    const char* end = line_.data() + line_.size();
    const auto [stop, error] = std::from_chars(begin, end, to);
    if (error != std::errc() || !(to > 0 && to <= most)) return expected(what);
    at_ += static_cast<size_t>(stop - begin);
    return true;
  }

  void output() {
    OutputText output;
    skip_blanks();
    output.place = place();
    if (!name(output.tensor, "the name of a tensor") || !held(output.held) ||
        !of_team(output.team) || !end_of_line()) {
      return;
    }
    if (!made_.count(output.tensor)) {
      std::vector<std::string_view> known(made_.begin(), made_.end());
      return refuse_at(output.place, unknown_word("tensor", output.tensor, known));
    }
    graph_->outputs.push_back(std::move(output));
  }

  bool make(const std::string& tensor, TextPlace where) {
    if (tensor.find_first_of("-.") != std::string::npos) {  // it names a buffer of plans, too
      refuse_at(where,
                fmt::format("tensor {}: a tensor's name has letters, digits and '_' only", tensor));
    }
    if (made_.insert(tensor).second) return true;
    refuse_at(where, fmt::format("tensor {} is made twice", tensor));
    return false;
  }

  void check_whole() {
    const auto refuse = [&](std::string reason) { refuse_at(place(), std::move(reason)); };
    if (graph_->name.empty()) return refuse("expected a graph, found nothing");
    if (graph_->stages.empty()) return refuse("a graph needs at least one stage");
    if (graph_->outputs.empty()) return refuse("a graph needs at least one output");
    std::set<std::string_view> used;
    for (const StageText& stage : graph_->stages) used.insert(stage.in.begin(), stage.in.end());
    std::set<std::string_view> given;
    for (const OutputText& output : graph_->outputs) {
      if (!given.insert(output.tensor).second) {
        refuse_at(output.place, fmt::format("tensor {} is an output already", output.tensor));
      }
      for (const InputText& input : graph_->inputs) {
        if (input.name != output.tensor) continue;
        refuse_at(
            output.place,
            fmt::format("tensor {} is an input; an output is what a stage makes", output.tensor));
      }
    }
    used.insert(given.begin(), given.end());
    for (const TeamText& team : graph_->teams) {
      const auto is_of = [&](const InputText& input) { return input.team == team.name; };
      if (std::none_of(graph_->inputs.begin(), graph_->inputs.end(), is_of)) {
        refuse_at(team.place, fmt::format("no input is of team {}", team.name));
      }
    }
    for (const InputText& input : graph_->inputs) {
      if (!used.count(input.name)) {
        refuse_at(input.place, fmt::format("no stage uses input {}", input.name));
      }
    }
    for (const StageText& stage : graph_->stages) {
      if (!used.count(stage.out)) {
        refuse_at(stage.place, fmt::format("nothing uses tensor {}; make it an output", stage.out));
      }
    }
  }

  std::string_view text_, line_;
  size_t at_ = 0;
  int line_number_ = 0;
  std::shared_ptr<GraphText> graph_ = std::make_shared<GraphText>();
  std::set<std::string, std::less<>> made_;
  std::vector<std::string> reasons_;
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

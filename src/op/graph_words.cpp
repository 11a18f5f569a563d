#include "op/graph_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "core/text.h"

namespace stretto {
namespace {

constexpr size_t kMostReasons = 20;

constexpr std::string_view kHeldNames[] = {"whole", "rows", "cols", "experts", "routed"};
constexpr std::string_view kOwnTypes[] = {"fp32", "i32", "i64"};

bool blank(char c) { return c == ' ' || c == '\t'; }

}  // namespace

GraphWords::GraphWords(GraphText& graph) : graph_(graph), most_(kMostReasons) {}

void GraphWords::next_line(std::string_view line) {
  ++line_number_;
  line_ = line.substr(0, line.find('#'));
  while (!line_.empty() && (line_.back() == '\r' || blank(line_.back()))) line_.remove_suffix(1);
  at_ = 0;
  skip_blanks();
}

void GraphWords::go_to_end() {
  line_number_ = std::max(1, line_number_);
  at_ = 0;
  most_ = reasons_.size() + kMostReasons;
}

bool GraphWords::skip_blanks() {
  while (at_ < line_.size() && blank(line_[at_])) ++at_;
  return at_ < line_.size();
}

void GraphWords::refuse_at(TextPlace where, std::string reason) {
  ++num_refused_;
  if (!has_enough_reasons()) reasons_.push_back({where, std::move(reason)});
}

std::vector<std::string> GraphWords::reasons() const {
  std::vector<const Reason*> sorted;
  for (const Reason& reason : reasons_) sorted.push_back(&reason);
  std::stable_sort(sorted.begin(), sorted.end(), [](const Reason* a, const Reason* b) {
    return std::pair(a->place.line, a->place.column) < std::pair(b->place.line, b->place.column);
  });
  std::vector<std::string> out;
  for (const Reason* reason : sorted) out.push_back(prefix(graph_, reason->place) + reason->what);
  if (num_refused_ > reasons_.size()) out.push_back(std::string(kMoreFaults));
  return out;
}

bool GraphWords::expected(std::string_view what) {
  refuse_at(place(), fmt::format("expected {}, found {}", what,
                                 rest().empty() ? "the end of the line" : quote(rest())));
  return false;
}

bool GraphWords::name(std::string& to, std::string_view what) {
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

bool GraphWords::character(char c) {
  skip_blanks();
  if (!is_at(c)) return expected(fmt::format("'{}'", c));
  ++at_;
  return true;
}

bool GraphWords::end_of_line() { return !skip_blanks() || expected("the end of the line"); }

bool GraphWords::extent(Extent& to, std::string_view also) {
  std::string why;
  skip_blanks();
  const TextPlace where = place();
  const std::optional<Extent> read = Extent::parse(line_, at_, why);
  if (!read) return expected(why);
  to = *read;
  for (const Extent::Name& one : to.names()) {
    const bool is_known = std::count(graph_.sizes.begin(), graph_.sizes.end(), one.name) > 0;
    if (is_known || !graph_.knows_sizes || (!also.empty() && one.name == also)) continue;
    std::vector<std::string_view> known(graph_.sizes.begin(), graph_.sizes.end());
    if (!also.empty()) known.push_back(also);
    refuse_at(where, unknown_word("size", one.name, known));
  }
  return true;
}

bool GraphWords::held(Held& to) {
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

bool GraphWords::of_team(std::string& to) {
  skip_blanks();
  if (!rest().starts_with("of") || (rest().size() > 2 && !blank(rest()[2]))) return true;
  at_ += 2;
  skip_blanks();
  const TextPlace where = place();
  if (!name(to, "the name of a team")) return false;
  std::vector<std::string_view> known;
  for (const TeamText& team : graph_.teams) known.push_back(team.name);
  if (std::count(known.begin(), known.end(), to)) return true;
  if (!knows_teams_) return false;
  refuse_at(where, known.empty()
                       ? fmt::format("no team {}: a line above says it, as in \"team {} 4\"",
                                     quote(to), to)
                       : unknown_word("team", to, known));
  return false;
}

bool GraphWords::own_type(std::optional<DType>& to) {
  if (!skip_blanks()) return true;
  const TextPlace where = place();
  std::string word;
  if (!name(word, "an element type or the end of the line")) return false;
  if (std::count(std::begin(kOwnTypes), std::end(kOwnTypes), word)) {
    to = any_dtype_from(word);
    return true;
  }
  refuse_at(where, unknown_word("type of a tensor", word, kOwnTypes));
  return false;
}

bool GraphWords::decimal(double& to, double most, std::string_view what) {
  const char* begin = line_.data() + at_;
  const char* end = line_.data() + line_.size();
  const auto [stop, error] = std::from_chars(begin, end, to);
  // Plans have it in fp32, where what is too small would be 0.
  if (error != std::errc() || !(to <= most && static_cast<float>(to) > 0)) return expected(what);
  at_ += static_cast<size_t>(stop - begin);
  return true;
}

bool GraphWords::yes_or_no(bool& to) {
  const std::string_view word = line_.substr(at_, line_.find_first_of(" \t", at_) - at_);
  if (word != "0" && word != "1") return expected("0 or 1");
  to = word == "1";
  ++at_;
  return true;
}

}  // namespace stretto

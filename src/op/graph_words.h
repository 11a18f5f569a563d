// The words of a graph's lines, one after the other: what is read, and what is wrong with it.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "op/graph_text.h"

namespace stretto {

// One line after another; what is wrong with one does not keep others from being read. Readers
// answer whether they have found what they are asked for; if not, the reason is kept.
class GraphWords {
 public:
  // Lines are of that graph, whose sizes and teams are those that were read before.
  explicit GraphWords(GraphText& graph);

  void next_line(std::string_view line);
  std::string_view line() const { return line_; }
  std::string_view rest() const { return line_.substr(std::min(at_, line_.size())); }
  // Where what is wrong with all of it is said, however much is wrong with lines.
  void go_to_end();

  bool is_at_end() const { return at_ == line_.size(); }
  bool skip_blanks();  // whether anything is left
  bool is_at(char c) const { return at_ < line_.size() && line_[at_] == c; }
  bool is_at_name() const { return at_ < line_.size() && is_name_start(line_[at_]); }
  void skip() { ++at_; }
  TextPlace place() const { return {line_number_, static_cast<int>(at_) + 1}; }

  void refuse_at(TextPlace where, std::string reason);
  bool expected(std::string_view what);
  // In the order of their places; of very many the first ones, and that there may be more.
  std::vector<std::string> reasons() const;
  size_t num_refused() const { return num_refused_; }
  bool has_enough_reasons() const { return reasons_.size() >= most_; }
  // A line that is not understood may be of a team, so no other line is refused for its team.
  void doubt_teams() { knows_teams_ = false; }

  bool name(std::string& to, std::string_view what);
  bool character(char c);
  bool end_of_line();
  // Of the graph's sizes, and of what is called `also`.
  bool extent(Extent& to, std::string_view also = {});
  bool held(Held& to);
  // "of TEAM", where it is there.
  bool of_team(std::string& to);
  // A type that the operator does not decide, where one is there.
  bool own_type(std::optional<DType>& to);
  bool decimal(double& to, double most, std::string_view what);
  bool yes_or_no(bool& to);

 private:
  GraphText& graph_;
  std::string_view line_;
  size_t at_ = 0;
  int line_number_ = 0;
  struct Reason {
    TextPlace place;
    std::string what;
  };
  std::vector<Reason> reasons_;
  size_t most_;
  size_t num_refused_ = 0;
  bool knows_teams_ = true;
};

}  // namespace stretto

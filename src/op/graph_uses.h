// Who makes and who uses the tensors of a graph's text. What is wrong with that is known when all
// lines have been read: a tensor that a line uses may be made below, or by the line itself.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "op/graph_words.h"

namespace stretto {

class GraphUses {
 public:
  // A line makes it; a stage's, whose operands follow, or an input's. False where a line above
  // does.
  bool make(const std::string& tensor, TextPlace where, bool is_stage);
  void need(const std::string& tensor, TextPlace where);  // the stage's that was made last
  void give(const std::string& tensor, TextPlace where);  // an output's

  // A line with a fault may use each word in it; one that is not understood may make each, too.
  void use_words(std::string_view line) { add_words(line, may_use_); }
  void make_words(std::string_view line) { add_words(line, may_make_); }
  bool may_use(std::string_view name) const { return may_use_.count(name) > 0; }
  // A line does not say all that it uses.
  void miss_use() { knows_uses_ = false; }

  // Tensors that nobody makes, or lines below, and cycles.
  void say_makers(GraphWords& words);
  // Tensors that nobody uses; none where a line that may use them is not understood.
  void say_unused(GraphWords& words) const;
  // Names in lines with faults.
  std::set<std::string, std::less<>> take_doubtful() { return std::move(may_use_); }

 private:
  using Names = std::set<std::string, std::less<>>;
  struct Maker {
    std::string tensor;
    TextPlace place;
    bool is_stage = false;
  };
  struct Use {
    int by = -1;  // a maker; -1: an output, or a stage whose tensor is made above already
    std::string tensor;
    TextPlace where;
  };

  static void add_words(std::string_view line, Names& to);
  void say_unknown(const Use& use, GraphWords& words) const;

  std::vector<Maker> makers_;
  std::map<std::string, int, std::less<>> ids_;  // of makers, by tensor
  std::vector<Use> uses_;
  int last_ = -1;  // the stage whose operands follow
  Names may_use_, may_make_;
  bool knows_uses_ = true;
};

}  // namespace stretto

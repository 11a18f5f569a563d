// Stages of a graph whose sizes are being bound: their shapes, how they need their operands, and
// what they make.
#pragma once

#include <span>
#include <vector>

#include "op/binding.h"
#include "op/dealing.h"
#include "op/stage_rules.h"

namespace stretto {

// Where experts are dealt to ranks: each has a sum over its own, which is no value yet.
bool are_sums_of_some(const Operator& graph, const Tensor& tensor);

class StageBinder {
 public:
  StageBinder(Binding& binding, Dealing& dealing)
      : binding_(binding), dealing_(dealing), graph_(binding.graph) {}

  // Refuses what is wrong however that is which is not known. What it makes is known as far as that
  // follows from its operands.
  void add(const StageText& text);

 private:
  struct Operands {
    std::vector<const Tensor*> tensors;
    std::vector<Known> known;
    bool are_known() const;       // all of each
    bool are_held_known() const;  // how each is held, and by which team
  };

  // False where an attribute has no value.
  bool read_attributes(const StageText& text, Stage& stage);
  Operands operands_of(const Stage& stage) const;
  StageRule rule_of_sums(const Stage& stage, const std::vector<const Tensor*>& in) const;
  void check_dealt(const StageText& text, const Stage& stage, const Operands& in,
                   const KnownRule& of);
  void check_edges(const StageText& text, const Stage& stage, const Operands& in,
                   const KnownRule& of);
  void make(const StageText& text, Stage stage, const Operands& in, const KnownRule& of);
  void refuse(TextPlace place, const std::string& reason) { binding_.refuse(place, reason); }

  Binding& binding_;
  Dealing& dealing_;
  Operator& graph_;
};

}  // namespace stretto

// What of a graph's tensors is known where lines, or sizes, are refused: so that all other faults
// are told with them, and none that only follows from them.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "op/stage_rules.h"

namespace stretto {

// Of a tensor; what is not known may be anything.
struct Known {
  bool rows = true, cols = true, matrices = true, held = true, dtype = true;

  static constexpr Known nothing() { return {false, false, false, false, false}; }
  bool shape() const { return rows && cols && matrices; }
  bool all() const { return shape() && held && dtype; }
};

// The rule of a stage some of whose operands are known in part: a fault that it has whatever they
// are, and which of `needs`, and of what is made, are the same then.
struct KnownRule {
  StageRule rule;
  std::vector<bool> needs = {};
  Known made = {};
};

using RuleOfOperands = std::function<StageRule(const std::vector<const Tensor*>&)>;
KnownRule known_rule(const std::vector<const Tensor*>& in, std::span<const Known> known,
                     const RuleOfOperands& rule_of);

}  // namespace stretto

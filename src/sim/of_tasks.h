// OfTasks: a value for some of a plan's tasks, found without a search: each has operands of its
// own, so that where these begin is its number.
#pragma once

#include <vector>

#include "stretto/plan.h"

namespace stretto::sim {

template <typename Value>
class OfTasks {
 public:
  explicit OfTasks(const Plan& plan) : plan_(plan) {}

  Value& operator[](const Instr& task) {
    if (places_.empty()) places_.resize(plan_.operands.size(), 0);
    uint32_t& place = places_[task.first_operand];
    if (place == 0) {
      values_.emplace_back();
      place = static_cast<uint32_t>(values_.size());
    }
    return values_[place - 1];
  }
  // Null: it has none.
  const Value* find(const Instr& task) const {
    if (places_.empty()) return nullptr;
    const uint32_t place = places_[task.first_operand];
    return place == 0 ? nullptr : &values_[place - 1];
  }

 private:
  const Plan& plan_;
  std::vector<uint32_t> places_;  // by first operand: 1 more than the index of its value
  std::vector<Value> values_;
};

}  // namespace stretto::sim

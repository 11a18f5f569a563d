// Calls: the tensors that a caller gives to one run of an operator, by the graph's names.
//
// On a GPU and on the emulator alike: all inputs and all outputs, each with the address of its
// first element on that rank. Elements of a row lie side by side; rows may lie further apart.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stretto/operator.h"
#include "stretto/reference.h"

namespace stretto {

// A tensor of the operator's that is the caller's.
struct CallerTensor {
  int tensor = 0;
  Held held = Held::whole;
  bool is_output = false;
  bool operator==(const CallerTensor&) const = default;
};
// Inputs as the graph writes them, then outputs; a tensor's place here is its index at calls.
std::vector<CallerTensor> caller_tensors(const Operator& op);

// One of them at a call, on one rank.
struct CallTensor {
  std::string_view name;
  uint64_t address = 0;    // may be 0 where the rank has no rows of it
  int64_t row_stride = 0;  // elements from a row to the next; 0: rows without gaps
};

// The rank's tensors in the order of caller_tensors(), with their strides. Throws UsageError naming
// what is missing, unknown, given twice, or nowhere.
std::vector<CallTensor> resolve_call(const Operator& op, int rank,
                                     std::span<const CallTensor> tensors);

}  // namespace stretto

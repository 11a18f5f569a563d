// Calls: the tensors that a caller gives to one run of an operator, by the graph's names.
//
// On a GPU and on the emulator alike these are all inputs and all outputs, each with the address of
// its first element on that rank. Elements of a row lie side by side; rows may lie further apart.
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

// A rank's tensors in the order of caller_tensors(). Throws UsageError naming what is missing,
// unknown or given twice.
std::vector<CallTensor> resolve_call(const Operator& op, std::span<const CallTensor> tensors);
// Throws UsageError where so many rows and columns cannot lie so.
void require_place(const CallTensor& tensor, int64_t rows, int64_t cols);

}  // namespace stretto

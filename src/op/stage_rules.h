// What each kind of stage makes of what ranks hold: shapes, who holds the result, and how its
// operands must be held.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stretto/operator.h"

namespace stretto {

// Rows that kernels gather are moved in pieces of so many bytes.
inline constexpr int64_t kRoutedRowBytes = 16;

// Whether the operand is multiplied with all rows of the first, or added to them: a weight, which
// every team has. Others go with them row by row.
bool is_parameter(StageKind kind, size_t operand);

struct StageRule {
  int64_t rows = 0, cols = 0;  // of the result
  Held held = Held::whole;
  std::vector<Held> needs;          // by operand
  std::string fault;                // not empty: the shapes do not fit
  std::optional<DType> dtype = {};  // of the result; none: the operator's
};
// Of a stage whose attributes are known.
StageRule rule_of(const Stage& stage, std::span<const Tensor* const> in, int ranks, DType dtype);

}  // namespace stretto

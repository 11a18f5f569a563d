// Rules that several kinds of stages have.
#pragma once

#include "op/stages/stage_row.h"

namespace stretto::stages {

// A term of a sum has no value of its own: what is computed of one waits for the sum.
inline Held summed(Held held) { return held == Held::partial ? Held::rows : held; }

// Whoever holds a part of the operand, or of one of both, computes that part of the result.
StageRule unary_rule(const StageOperands& of);
StageRule binary_rule(const StageOperands& of);
// The second operand is one row, which goes with all of the first.
StageRule rule_with_row(const StageOperands& of, Held held, Held of_row);

}  // namespace stretto::stages

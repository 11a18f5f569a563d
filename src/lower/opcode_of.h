// The tasks that stages are made of.
#pragma once

#include "stretto/operator.h"
#include "stretto/plan.h"

namespace stretto {

// Adding a residual is a reduce of two.
Opcode opcode_of(StageKind kind);

}  // namespace stretto

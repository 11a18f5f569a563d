// The reference of pooled look-ups.
#pragma once

#include "op/rows.h"
#include "stretto/operator.h"
#include "stretto/reference.h"

namespace stretto {

// Rows [row0, row1) of what the stage makes.
Rows look_up_rows(const Operator& op, const InputData& data, const Stage& stage, int64_t row0,
                  int64_t row1);

}  // namespace stretto

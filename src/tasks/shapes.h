// Faults that several kinds have in common.
#pragma once

#include <span>

#include "stretto/task_kind.h"

namespace stretto::tasks {

// Regions, at least one, must have the shape of the first.
TaskFault fault_in_shapes(std::span<const Region> reads);

}  // namespace stretto::tasks

// Faults that several kinds have in common.
#pragma once

#include <span>

#include "stretto/task_kind.h"

namespace stretto::tasks {

TaskFault fault_in_number(std::span<const Region> reads, size_t number, std::string_view expected);

// The second of two regions must be one row as wide as the first.
TaskFault fault_in_shared_row(std::span<const Region> reads);

// Regions, at least one, must have the shape of the first.
TaskFault fault_in_shapes(std::span<const Region> reads);

// How many of a restore's regions stand side by side: the first ones, until `cols` are full.
size_t tiles_beside(std::span<const Region> reads, int32_t cols);

}  // namespace stretto::tasks

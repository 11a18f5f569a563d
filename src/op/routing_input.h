// What rows choose and how their results are weighed, as pure functions of seed and row.
#pragma once

#include <cstdint>
#include <span>

#include "stretto/reference.h"

namespace stretto {

// The experts of a row of the tensor, which says which matrices of stacks are meant.
std::vector<int32_t> ids_of_row(const Operator& op, const InputData& data, int tensor, int64_t row);

// Whether ids of the caller's say what rows choose, experts or rows of tables.
bool takes_ids(const Operator& op);

// False where the tensor says nothing of routing. values[i]: the element (row, col0 + i).
bool fill_routing(const Operator& op, const InputData& data, int tensor, int64_t row, int64_t col0,
                  std::span<float> values);

}  // namespace stretto

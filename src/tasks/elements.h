// Rows of elements: widening to fp32, rounding back, adding. Vectorised; the bits do not depend on
// the machine.
#pragma once

#include <cstddef>
#include <cstdint>

#include "stretto/dtype.h"

namespace stretto::tasks {

// A quiet NaN of every element type that no arithmetic and no input generator produces.
inline constexpr uint16_t kPoison = 0x7FED;
void fill_poison(DType dtype, void* to, size_t count);

// Exact. NaN payloads keep their leading bits.
void widen(DType dtype, const void* from, float* to, size_t count);

// To the nearest, ties to even; overflow gives infinity, NaN stays NaN, subnormals are kept.
void round_elements(DType dtype, const float* from, void* to, size_t count);

// sum[i] += from[i] in fp32.
void add_elements(DType dtype, const void* from, float* sum, size_t count);

}  // namespace stretto::tasks

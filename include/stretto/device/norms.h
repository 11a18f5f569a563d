// RMSNorm of a row, by plans' movers and by kernels of the language.
#pragma once

#include "stretto/device/types.h"

namespace stretto::device {

// Rounded to nearest.
STRETTO_PRIMITIVE float root(float value) {
#ifdef STRETTO_DEVICE
  return __fsqrt_rn(value);
#else
  return __builtin_sqrtf(value);
#endif
}

// What every element of a row is multiplied with, from the sum of the squares of all.
STRETTO_PRIMITIVE float norm_factor(float squares, uint64 columns, float epsilon) {
  return 1.0f / root(squares / static_cast<float>(columns) + epsilon);
}

}  // namespace stretto::device

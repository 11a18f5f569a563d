// Multiply and add, rounded once, alike everywhere.
#pragma once

#include "stretto/device/types.h"

namespace stretto::device {

// a * b + c
STRETTO_PRIMITIVE float fused(float a, float b, float c) {
#ifdef STRETTO_DEVICE
  return __fmaf_rn(a, b, c);
#else
  return __builtin_fmaf(a, b, c);
#endif
}

}  // namespace stretto::device

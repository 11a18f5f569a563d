// What follows a product element by element, in fp32.
//
// Each is x / (1 + 2^y) by the approximations that the GPU has of both: together off by less than
// 2^-15 of the exact value where that is not below 2^-119, which is less than a hundredth of what
// rounding to bf16 may be, and a tenth of fp16's. Values below are zeros.
#pragma once

#include "stretto/device/types.h"

namespace stretto::device {

#ifdef STRETTO_DEVICE

// x / (1 + 2^exponent).
STRETTO_DEVICE float over_one_plus_power(float x, float exponent) {
  float power, inverse;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(exponent));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(1.0f + power));
  return x * inverse;
}

inline constexpr float kLog2OfE = 1.44269504089f;

// x times the sigmoid of x.
STRETTO_DEVICE float silu_of(float x) { return over_one_plus_power(x, x * -kLog2OfE); }

// 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), which is x times the sigmoid of twice what the
// hyperbolic tangent is of: so there is no difference of almost equal numbers.
STRETTO_DEVICE float gelu_of(float x) {
  constexpr float kLinear = -2 * kLog2OfE * 0.79788456080f;
  return over_one_plus_power(x, x * (kLinear + kLinear * 0.044715f * x * x));
}

#endif  // STRETTO_DEVICE

}  // namespace stretto::device

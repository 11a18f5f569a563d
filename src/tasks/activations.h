// Functions of one element that follow a product, in fp32. Powers of e are those of fp64, rounded,
// so that the bits do not depend on how a machine's library makes those of fp32.
#pragma once

#include <cmath>

namespace stretto::tasks {

// x / (1 + e^-y): x times the sigmoid of y.
inline float times_sigmoid(float x, float y) {
  return x / (1.0f + static_cast<float>(std::exp(-static_cast<double>(y))));
}

inline float silu_of(float x) { return times_sigmoid(x, x); }

// 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), which is x times the sigmoid of twice what the
// hyperbolic tangent is of: so there is no difference of almost equal numbers.
inline float gelu_of(float x) {
  constexpr float kTwiceRootOfTwoByPi = 1.5957691216f;
  return times_sigmoid(x, kTwiceRootOfTwoByPi * (x + 0.044715f * x * x * x));
}

}  // namespace stretto::tasks

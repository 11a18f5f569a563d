// The arithmetic of scores of experts: one definition, for the emulator and for GPUs. Powers of e
// are made of operations that round alike everywhere: where scores are the same bits, so are
// choices.
#pragma once

#include "stretto/device/elements.h"
#include "stretto/device/fused.h"
#include "stretto/device/types.h"

namespace stretto::device {

namespace detail {

STRETTO_PRIMITIVE float quotient(float a, float b) {
#ifdef STRETTO_DEVICE
  return __fdiv_rn(a, b);
#else
  return a / b;
#endif
}

// e^x for x up to 88; off by less than 2^-22 of it, or 2^-149.
STRETTO_PRIMITIVE float power_of_e(float x) {
  x = x < -104.0f ? -104.0f : x > 88.0f ? 88.0f : x;
  // Adding this leaves a whole number in the low bits.
  constexpr float kWhole = 12582912.0f;
  const float moved = fused(x, 1.44269504f, kWhole);
  const float whole = moved - kWhole;
  float rest = fused(whole, -0.693145751953125f, x);
  rest = fused(whole, -1.428606765330187e-6f, rest);
  float power = 1.0f / 5040;
  power = fused(power, rest, 1.0f / 720);
  power = fused(power, rest, 1.0f / 120);
  power = fused(power, rest, 1.0f / 24);
  power = fused(power, rest, 1.0f / 6);
  power = fused(power, rest, 0.5f);
  power = fused(power, rest, 1.0f);
  power = fused(power, rest, 1.0f);
  // 2^n in two steps, since it may be subnormal. Shifted by 256, n is never below 0.
  const uint32 n = bits_of_float(moved) - bits_of_float(kWhole) + 256;
  const uint32 half = n / 2;
  return power * float_of_bits((half - 1) << 23) * float_of_bits((n - half - 1) << 23);
}

STRETTO_PRIMITIVE float sigmoid(float x) { return quotient(1.0f, 1.0f + power_of_e(-x)); }

// A score's bits in the order of the numbers, above 0: there is one zero, and no NaN.
STRETTO_PRIMITIVE uint32 order_of(float score) {
  const uint32 bits = bits_of_float(score + 0.0f);
  return (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
}
STRETTO_PRIMITIVE float score_of(uint32 order) {
  return float_of_bits((order >> 31) != 0 ? order & 0x7fffffffu : ~order);
}

}  // namespace detail

}  // namespace stretto::device

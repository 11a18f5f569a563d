// RMSNorm of rows, in bf16 with fp32 inside, and its result as bf16 or fp8.
//
// The norm is taken of the residual as it is stored, so that a row that was summed on one rank and
// one that was sent to it are normed to the same bits.
#pragma once

#include "stretto/device/lang/numbers.h"
#include "stretto/device/lang/shmem.h"

namespace stretto::device {

template <class Block>
struct NormArgs {
  Ptr<Block, const Vec16> weight;     // local: row_vectors of 8 bf16
  Ptr<Block, const float> fp8_scale;  // local, one value; null: the result is bf16
  float epsilon;
};

STRETTO_PRIMITIVE float sum_of_squares(const Vec16& v) {
  float values[Bf16x8::kElements] = {};
  Bf16x8::add(values, v);
  float sum = 0;
  STRETTO_UNROLL for (float value : values) sum += value * value;
  return sum;
}

// What every element of a row is multiplied with, from the sum of the squares of all.
STRETTO_PRIMITIVE float norm_factor(float squares, uint64 row_vectors, float epsilon) {
  const float mean = squares / static_cast<float>(row_vectors * Bf16x8::kElements);
  return 1.0f / root(mean + epsilon);
}

STRETTO_PRIMITIVE void norm_vector(const Vec16& v, const Vec16& weight, float factor,
                                   float (&values)[Bf16x8::kElements]) {
  float weights[Bf16x8::kElements] = {};
  STRETTO_UNROLL for (float& value : values) value = 0;
  Bf16x8::add(values, v);
  Bf16x8::add(weights, weight);
  STRETTO_UNROLL for (int i = 0; i < Bf16x8::kElements; ++i) values[i] *= factor * weights[i];
}

// Eight fp8 values of a normed vector, none of them a negative zero.
STRETTO_PRIMITIVE uint64 fp8_of(const float (&values)[Bf16x8::kElements], float inverse_scale) {
  float scaled[Bf16x8::kElements];
  STRETTO_UNROLL for (int i = 0; i < Bf16x8::kElements; ++i) {
    scaled[i] = values[i] * inverse_scale;
    if (scaled[i] > -0.0009765625f && scaled[i] < 0.0f) scaled[i] = 0.0f;  // would round to -0
    scaled[i] += 0.0f;
  }
  return e4m3x4_from_floats(scaled) | static_cast<uint64>(e4m3x4_from_floats(scaled + 4)) << 32;
}

}  // namespace stretto::device

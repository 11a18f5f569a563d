// Inputs and comparisons for verifying and timing kernels on the GPU, where the data is.
#pragma once

#include "stretto/device/elements.h"

namespace stretto::device {

enum class Element : uint32 { bf16, fp16, fp32 };
enum class Fill : uint32 { normal, integers };  // standard normal; whole numbers -2 .. 2

struct FillParams {
  void* to;
  uint64 count, seed;
  Element element;
  Fill fill;
};

struct Comparison {
  uint64 differing;  // elements that are not the reference rounded once
  uint64 not_finite;
  double error_squares, reference_squares;
};

struct CompareParams {
  const void* values;
  const float* reference;
  Comparison* result;
  uint64 count;
  Element element;
  uint32 reserved;
};

// C[m, n] = A[m, k] * B[n, k]^T, dense rows.
struct ReferenceParams {
  const void* a;
  const void* b;
  float* c;
  uint64 m, n, k;
  Element element;
  uint32 reserved;
};

#ifdef STRETTO_DEVICE

STRETTO_DEVICE uint64 mix_bits(uint64 value) {
  value += 0x9e3779b97f4a7c15ull;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ull;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebull;
  return value ^ (value >> 31);
}

STRETTO_DEVICE void fill_elements(const FillParams& params) {
  const uint64 step = static_cast<uint64>(gridDim.x) * blockDim.x;
  for (uint64 i = static_cast<uint64>(blockIdx.x) * blockDim.x + threadIdx.x; i < params.count;
       i += step) {
    const uint64 bits = mix_bits(params.seed * 0x100000001b3ull + i);
    float value;
    if (params.fill == Fill::integers) {
      value = static_cast<float>(static_cast<int32>(bits % 5) - 2);
    } else {
      const float u = (static_cast<uint32>(bits) + 1.0f) * 2.3283064e-10f;
      const float angle = static_cast<uint32>(bits >> 32) * 1.4629181e-9f;
      value = sqrtf(-2.0f * logf(u < 1.0f ? u : 1.0f)) * cosf(angle);
    }
    const uint32 rounded = round_as(params.element, value);
    if (params.element == Element::fp32) {
      static_cast<uint32*>(params.to)[i] = rounded;
    } else {
      static_cast<uint16*>(params.to)[i] = static_cast<uint16>(rounded);
    }
  }
}

STRETTO_DEVICE void compare_elements(const CompareParams& params) {
  const uint64 step = static_cast<uint64>(gridDim.x) * blockDim.x;
  uint64 differing = 0, not_finite = 0;
  double error_squares = 0, reference_squares = 0;
  for (uint64 i = static_cast<uint64>(blockIdx.x) * blockDim.x + threadIdx.x; i < params.count;
       i += step) {
    const uint32 bits = params.element == Element::fp32
                            ? static_cast<const uint32*>(params.values)[i]
                            : static_cast<const uint16*>(params.values)[i];
    const float reference = params.reference[i];
    const double value = widen_as(params.element, bits);
    if (bits != round_as(params.element, reference)) ++differing;
    if (!(value - value == 0)) {
      ++not_finite;
      continue;
    }
    error_squares += (value - reference) * (value - reference);
    reference_squares += static_cast<double>(reference) * reference;
  }
  atomicAdd(&params.result->differing, differing);
  atomicAdd(&params.result->not_finite, not_finite);
  atomicAdd(&params.result->error_squares, error_squares);
  atomicAdd(&params.result->reference_squares, reference_squares);
}

STRETTO_DEVICE float element_at(const void* values, Element element, uint64 index) {
  return widen_as(element, element == Element::fp32 ? static_cast<const uint32*>(values)[index]
                                                    : static_cast<const uint16*>(values)[index]);
}

// In double precision, one thread an element: for small shapes.
STRETTO_DEVICE void multiply_reference(const ReferenceParams& params) {
  const uint64 step = static_cast<uint64>(gridDim.x) * blockDim.x;
  for (uint64 i = static_cast<uint64>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < params.m * params.n; i += step) {
    const uint64 a = i / params.n * params.k, b = i % params.n * params.k;
    double sum = 0;
    for (uint64 k = 0; k < params.k; ++k) {
      sum += static_cast<double>(element_at(params.a, params.element, a + k)) *
             element_at(params.b, params.element, b + k);
    }
    params.c[i] = static_cast<float>(sum);
  }
}

#endif  // STRETTO_DEVICE

}  // namespace stretto::device

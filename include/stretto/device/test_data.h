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
  float scale;
  uint32 reserved;
};

// A stage of an operator, of whole tensors with dense rows: y has as many rows as x, or one for
// all. Look-ups have indices x, of as many columns for each of `tables` of y_rows rows each.
enum class StageOf : uint32 { rounded, swiglu, gelu, silu, sum, norm, embed, embed_mean };

struct StageParams {
  const void* x;
  const void* y;
  void* to;
  uint64 rows, columns, y_rows;
  Element x_element, y_element, to_element;
  StageOf stage;
  float epsilon;
  uint32 x_columns, tables;
  uint32 wide_ids;  // indices are of 64 bits
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

STRETTO_DEVICE void store_element(void* to, Element element, uint64 index, float value) {
  const uint32 rounded = round_as(element, value);
  if (element == Element::fp32) {
    static_cast<uint32*>(to)[index] = rounded;
  } else {
    static_cast<uint16*>(to)[index] = static_cast<uint16>(rounded);
  }
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
    store_element(params.to, params.element, i, value * params.scale);
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

STRETTO_DEVICE float of_stage(StageOf stage, float x, float y) {
  if (stage == StageOf::swiglu) return x / (1.0f + expf(-x)) * y;
  if (stage == StageOf::silu) return x / (1.0f + expf(-x));
  if (stage == StageOf::gelu) {
    return 0.5f * x * (1.0f + tanhf(0.79788456f * (x + 0.044715f * x * x * x)));
  }
  return stage == StageOf::sum ? x + y : x;
}

// A thread for each element: what it adds up lies in one column of a table.
STRETTO_DEVICE void look_up(const StageParams& params) {
  const uint64 step = static_cast<uint64>(gridDim.x) * blockDim.x;
  const uint64 columns = params.columns / params.tables, slots = params.x_columns / params.tables;
  for (uint64 i = static_cast<uint64>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < params.rows * params.columns; i += step) {
    const uint64 table = i % params.columns / columns, column = i % columns;
    const uint64 first = i / params.columns * params.x_columns + table * slots;
    double sum = 0;
    uint32 picked = 0;
    for (uint64 slot = 0; slot < slots; ++slot) {
      const int64 id = params.wide_ids != 0 ? static_cast<const int64*>(params.x)[first + slot]
                                            : static_cast<const int32*>(params.x)[first + slot];
      if (id < 0 || static_cast<uint64>(id) >= params.y_rows) continue;
      const uint64 row = table * params.y_rows + static_cast<uint64>(id);
      sum += element_at(params.y, params.y_element, row * columns + column);
      ++picked;
    }
    if (params.stage == StageOf::embed_mean && picked > 1) sum /= picked;
    store_element(params.to, params.to_element, i, static_cast<float>(sum));
  }
}

// A block for each row in turn.
STRETTO_DEVICE void evaluate_stage(const StageParams& params) {
  if (params.stage == StageOf::embed || params.stage == StageOf::embed_mean) return look_up(params);
  __shared__ double squares;
  const auto y_at = [&](uint64 row, uint64 column) {
    if (params.y == nullptr) return 0.0f;
    const uint64 at = (params.y_rows == 1 ? 0 : row) * params.columns + column;
    return element_at(params.y, params.y_element, at);
  };
  for (uint64 row = blockIdx.x; row < params.rows; row += gridDim.x) {
    const uint64 first = row * params.columns;
    float scale = 0;
    if (params.stage == StageOf::norm) {
      if (threadIdx.x == 0) squares = 0;
      __syncthreads();
      double own = 0;
      for (uint64 c = threadIdx.x; c < params.columns; c += blockDim.x) {
        const double x = element_at(params.x, params.x_element, first + c);
        own += x * x;
      }
      atomicAdd(&squares, own);
      __syncthreads();
      scale = rsqrtf(static_cast<float>(squares / static_cast<double>(params.columns)) +
                     params.epsilon);
    }
    for (uint64 c = threadIdx.x; c < params.columns; c += blockDim.x) {
      const float x = element_at(params.x, params.x_element, first + c), y = y_at(row, c);
      const float value =
          params.stage == StageOf::norm ? x * scale * y : of_stage(params.stage, x, y);
      store_element(params.to, params.to_element, first + c, value);
    }
    __syncthreads();
  }
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

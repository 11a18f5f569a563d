// Inputs as pure functions of seed, tensor, row and column.
#include <algorithm>
#include <bit>
#include <limits>

#include "op/integer_input.h"
#include "stretto/error.h"
#include "stretto/reference.h"

namespace stretto {

std::string_view to_string(Fill fill) {
  switch (fill) {
#define STRETTO_CASE(name, text, meaning) \
  case Fill::name:                        \
    return text;
    STRETTO_FILLS(STRETTO_CASE)
#undef STRETTO_CASE
  }
  STRETTO_ASSERT(false, "fill out of range");
}

Slice input_slice(const Operator& op, Input input, int rank) {
  if (op.reduces()) {
    const int64_t share = op.local_k();
    return {0, input == Input::a ? op.m : op.n, rank * share, (rank + 1) * share};
  }
  if (input == Input::a) return {op.row_shards().begin(rank), op.row_shards().end(rank), 0, op.k};
  const int64_t share = op.local_n();
  return {rank * share, (rank + 1) * share, 0, op.k};
}

Slice output_slice(const Operator& op, int rank) {
  switch (op.kind) {
    case OpKind::ag_gemm:
      return {0, op.m, rank * op.local_n(), (rank + 1) * op.local_n()};
    case OpKind::gemm_rs:
      return {op.row_shards().begin(rank), op.row_shards().end(rank), 0, op.n};
    case OpKind::gemm_ar:
      return {0, op.m, 0, op.n};
  }
  STRETTO_ASSERT(false, "operator kind out of range");
}

namespace {

// To nearest, ties to even, by dropping low bits of the significand; a carry into the exponent is
// right too. Good for normal numbers of the target type, and for subnormal ones where its exponents
// are fp32's.
template <int kDropped>
float drop_bits(float x) {
  constexpr uint32_t kHalf = uint32_t{1} << (kDropped - 1);
  uint32_t bits = std::bit_cast<uint32_t>(x);
  bits += kHalf - 1 + ((bits >> kDropped) & 1);
  bits &= ~((uint32_t{1} << kDropped) - 1);
  return std::bit_cast<float>(bits);
}

float round_to_bf16(float x) { return drop_bits<16>(x); }

float round_to_fp16(float x) {
  // Below 2^-14 fp16 has a fixed step of 2^-24, which is fp32's step at 0.75.
  const bool subnormal = x < 0x1p-14f && x > -0x1p-14f;
  return subnormal ? (x + 0.75f) - 0.75f : drop_bits<13>(x);
}

// The sum of four uniform numbers is nearly normal; no library function, so the same everywhere.
float nearly_normal(uint64_t hash) {
  constexpr float kDeviation = 65536.0f / 1.7320508f;
  const int32_t sum = static_cast<int32_t>((hash & 0xffff) + ((hash >> 16) & 0xffff) +
                                           ((hash >> 32) & 0xffff) + (hash >> 48));
  return static_cast<float>(sum - 2 * 65535) * (1.0f / kDeviation);
}

template <typename Round>
void fill_random(uint64_t key, float scale, int64_t col0, std::span<float> values, Round round) {
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = round(scale * nearly_normal(hash_element(key, col0 + static_cast<int64_t>(i))));
  }
}

// All of a normal distribution that ends at 3.5, times this, is subnormal in the type.
float subnormal_scale(DType dtype) { return dtype == DType::fp16 ? 0x1p-16f : 0x1p-128f; }

void fill_integers(const Operator& op, Input input, uint64_t key, int64_t col0,
                   std::span<float> values) {
  if (input == Input::b) {
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(integer_of_b(key, col0 + static_cast<int64_t>(i)));
    }
    return;
  }
  std::fill(values.begin(), values.end(), 0.0f);
  const int64_t col1 = col0 + static_cast<int64_t>(values.size());
  for (int i = 0; i < num_nonzeros(op.k); ++i) {
    const Nonzero nonzero = nonzero_of_a(key, op.k, i);
    if (nonzero.col >= col0 && nonzero.col < col1) {
      values[static_cast<size_t>(nonzero.col - col0)] = static_cast<float>(nonzero.value);
    }
  }
}

// Where in a row of K stands what is not finite: at most two places, which may be one.
void add_specials(const Operator& op, Input input, uint64_t key, int64_t col0,
                  std::span<float> values) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const uint64_t dice = hash_element(key, -1);
  if (input == Input::a ? dice % 2 != 0 : dice % 16 != 0) return;
  const int count = input == Input::a && dice >> 8 & 1 ? 2 : 1;
  for (int i = 0; i < count; ++i) {
    const uint64_t hash = hash_element(key, -2 - i);
    const auto col = static_cast<int64_t>((hash >> 16) % static_cast<uint64_t>(op.k));
    if (col < col0 || col >= col0 + static_cast<int64_t>(values.size())) continue;
    const float infinity = hash & 1 ? -kInfinity : kInfinity;
    values[static_cast<size_t>(col - col0)] = (hash >> 1) % 8 == 0 ? kNan : infinity;
  }
}

}  // namespace

void fill_input(const Operator& op, const InputData& data, Input input, int64_t row, int64_t col0,
                std::span<float> values) {
  const uint64_t key = hash_row(data.seed, input, row);
  if (data.fill == Fill::integers || data.fill == Fill::specials) {
    fill_integers(op, input, key, col0, values);
    if (data.fill == Fill::specials) add_specials(op, input, key, col0, values);
    return;
  }
  const bool is_tiny = data.fill == Fill::subnormals && input == Input::a;
  const float scale = is_tiny ? subnormal_scale(op.dtype) : 1.0f;
  switch (op.dtype) {
    case DType::bf16:
      return fill_random(key, scale, col0, values, round_to_bf16);
    case DType::fp16:
      return fill_random(key, scale, col0, values, round_to_fp16);
    case DType::fp32:
      return fill_random(key, scale, col0, values, [](float x) { return x; });
  }
}

float input_value(const Operator& op, const InputData& data, Input input, int64_t row,
                  int64_t col) {
  float value = 0;
  fill_input(op, data, input, row, col, {&value, 1});
  return value;
}

}  // namespace stretto

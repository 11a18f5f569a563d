// Inputs as pure functions of seed, tensor, row and column.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "op/integer_input.h"
#include "op/routing_input.h"
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

Slice input_slice(const Segment& op, Input input, int rank) {
  if (op.multiplies_own_rows() && input == Input::b) return {0, op.n, 0, op.k};
  if (op.exchanges_input()) {
    const ColShards shares = op.shares_of(op.k);
    return {0, op.m, shares.begin(rank), shares.end(rank)};
  }
  if (op.makes_terms()) {
    const ColShards shares = op.shares_of(op.k);
    return {0, input == Input::a ? op.m : op.n, shares.begin(rank), shares.end(rank)};
  }
  if (input == Input::a && !op.owns_rows()) return {0, op.m, 0, op.k};
  if (input == Input::a) return {op.row_shards().begin(rank), op.row_shards().end(rank), 0, op.k};
  const ColShards shares = op.shares_of(op.n);
  return {shares.begin(rank), shares.end(rank), 0, op.k};
}

Slice output_slice(const Segment& op, int rank) {
  if (kind_of(op.kind.out).reaches_all) return {0, op.m, 0, op.n};
  if (op.kind.weight == Held::rows || op.exchanges_output()) {
    const ColShards shares = op.shares_of(op.n);
    return {0, op.m, shares.begin(rank), shares.end(rank)};
  }
  return {op.row_shards().begin(rank), op.row_shards().end(rank), 0, op.n};
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

void fill_integers(Input input, uint64_t key, int64_t k, int64_t col0, std::span<float> values) {
  if (input == Input::b) {
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(integer_of_b(key, col0 + static_cast<int64_t>(i)));
    }
    return;
  }
  std::fill(values.begin(), values.end(), 0.0f);
  const int64_t col1 = col0 + static_cast<int64_t>(values.size());
  for (int i = 0; i < num_nonzeros(k); ++i) {
    const Nonzero nonzero = nonzero_of_a(key, k, i);
    if (nonzero.col >= col0 && nonzero.col < col1) {
      values[static_cast<size_t>(nonzero.col - col0)] = static_cast<float>(nonzero.value);
    }
  }
}

// Where in a row of K stands what is not finite: at most two places, which may be one.
void add_specials(Input input, uint64_t key, int64_t k, int64_t col0, std::span<float> values) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const uint64_t dice = hash_element(key, -1);
  if (input == Input::a ? dice % 2 != 0 : dice % 16 != 0) return;
  const int count = input == Input::a && dice >> 8 & 1 ? 2 : 1;
  for (int i = 0; i < count; ++i) {
    const uint64_t hash = hash_element(key, -2 - i);
    const auto col = static_cast<int64_t>((hash >> 16) % static_cast<uint64_t>(k));
    if (col < col0 || col >= col0 + static_cast<int64_t>(values.size())) continue;
    const float infinity = hash & 1 ? -kInfinity : kInfinity;
    values[static_cast<size_t>(col - col0)] = (hash >> 1) % 8 == 0 ? kNan : infinity;
  }
}

// `scale`: of values that are no integers.
void fill_normal(DType dtype, uint64_t key, float scale, int64_t col0, std::span<float> values) {
  switch (dtype) {
    case DType::bf16:
      return fill_random(key, scale, col0, values, round_to_bf16);
    case DType::fp16:
      return fill_random(key, scale, col0, values, round_to_fp16);
    case DType::fp32:
      return fill_random(key, scale, col0, values, [](float x) { return x; });
    case DType::i32:
    case DType::i64:
      STRETTO_ASSERT(false, "indices are not made of random values");
  }
}

// `like`: whose values they are; `key`: of the row, which has `k` columns.
void fill_row(const InputData& data, DType dtype, Input like, uint64_t key, int64_t k, int64_t col0,
              std::span<float> values) {
  if (data.fill == Fill::integers || data.fill == Fill::specials) {
    fill_integers(like, key, k, col0, values);
    if (data.fill == Fill::specials) add_specials(like, key, k, col0, values);
    return;
  }
  const bool is_tiny = data.fill == Fill::subnormals && like == Input::a;
  fill_normal(dtype, key, is_tiny ? subnormal_scale(dtype) : 1.0f, col0, values);
}

// Of a graph's weight: few integers in a row, each 1 or -1 times a power of two.
void fill_few_integers(const Tensor& of, uint64_t key, int64_t col0, std::span<float> values) {
  std::fill(values.begin(), values.end(), 0.0f);
  const int64_t col1 = col0 + static_cast<int64_t>(values.size());
  for (int i = 0; i < of.values.nonzeros; ++i) {
    const Nonzero nonzero = nonzero_of(key, of.cols, of.values.nonzeros, i);
    if (nonzero.col < col0 || nonzero.col >= col1) continue;
    values[static_cast<size_t>(nonzero.col - col0)] =
        std::copysign(of.values.integer_scale, static_cast<float>(nonzero.value));
  }
}

// Of what a graph's weights multiply: 1, 2, -1 and -2.
void fill_all_integers(uint64_t key, int64_t col0, std::span<float> values) {
  for (size_t i = 0; i < values.size(); ++i) {
    const uint64_t hash = hash_element(key, col0 + static_cast<int64_t>(i)) >> 32;
    const auto magnitude = static_cast<float>(1 + (hash & 1));
    values[i] = (hash & 2) != 0 ? -magnitude : magnitude;
  }
}

bool is_used_as(const Operator& op, int tensor, size_t operand) {
  return std::any_of(op.stages.begin(), op.stages.end(), [&](const Stage& stage) {
    return multiplies(stage.kind) && stage.in[operand] == tensor;
  });
}

// A rank has its part of every matrix, one below the other.
Slice slice_of_stack(const Operator& op, const Tensor& of, Held held, int rank) {
  const int64_t all = of.matrices * of.rows;
  switch (held) {
    case Held::rows:  // row0: in the first matrix
      return {of.rows / op.ranks * rank, of.rows / op.ranks * rank + all / op.ranks, 0, of.cols};
    case Held::cols:
      return {0, all, of.cols / op.ranks * rank, of.cols / op.ranks * (rank + 1)};
    case Held::experts: {
      const RowShards shares{of.matrices, op.ranks};
      return {shares.begin(rank) * of.rows, shares.begin(rank + 1) * of.rows, 0, of.cols};
    }
    case Held::whole:
    case Held::partial:
    case Held::routed:
      break;
  }
  return {0, all, 0, of.cols};
}

}  // namespace

void fill_input(const Segment& op, const InputData& data, Input input, int64_t row, int64_t col0,
                std::span<float> values) {
  fill_row(data, op.dtype, input, hash_row(data.seed, input, row), op.k, col0, values);
}

Slice slice_of(const Operator& op, int tensor, Held held, int rank) {
  const Tensor& of = op.tensor(tensor);
  if (of.matrices > 1) return slice_of_stack(op, of, held, rank);
  const int team = rank / op.team_ranks(of), number = rank % op.team_ranks(of);
  if (held == Held::rows && is_used_as(op, tensor, 1)) {  // columns of what it makes
    const ColShards rows = op.shares_of(of.rows, 0, of.team);
    return {rows.begin(number), rows.end(number), 0, of.cols};
  }
  const RowShards rows{of.rows, op.ranks};
  if (held == Held::rows) return {rows.begin(rank), rows.end(rank), 0, of.cols};
  const int64_t row0 = of.deals_rows ? team * op.team_rows(of) : 0;
  const int64_t row1 = row0 + op.team_rows(of);
  const ColShards cols = op.shares_of(of.cols, of.unit, of.team);
  if (held == Held::cols) return {row0, row1, cols.begin(number), cols.end(number)};
  return {row0, row1, 0, of.cols};
}

int64_t row_of_slice(const Operator& op, int tensor, Held held, const Slice& slice, int64_t row) {
  const Tensor& of = op.tensor(tensor);
  if (of.matrices == 1 || held != Held::rows) return slice.row0 + row;
  const int64_t each = of.rows / op.ranks;
  return row / each * of.rows + slice.row0 + row % each;
}

void fill_tensor(const Operator& op, const InputData& data, int tensor, int64_t row, int64_t col0,
                 std::span<float> values) {
  if (fill_routing(op, data, tensor, row, col0, values)) return;
  const Tensor& of = op.tensor(tensor);
  const uint64_t key = hash_row(data.seed, static_cast<Input>(tensor), row);
  const bool is_graph = op.only_product() == nullptr;
  if (is_graph && of.values.nonzeros > 0) {
    if (data.fill == Fill::integers) return fill_few_integers(of, key, col0, values);
    return fill_normal(op.dtype, key, of.values.scale, col0, values);
  }
  const Input like = is_used_as(op, tensor, 0) ? Input::a : Input::b;
  if (is_graph && data.fill == Fill::integers && like == Input::a) {
    return fill_all_integers(key, col0, values);
  }
  fill_row(data, op.dtype, like, key, of.cols, col0, values);
}

float input_value(const Segment& op, const InputData& data, Input input, int64_t row, int64_t col) {
  float value = 0;
  fill_input(op, data, input, row, col, {&value, 1});
  return value;
}

}  // namespace stretto

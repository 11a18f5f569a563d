// RMSNorm of rows, in bf16 with fp32 inside, and its result as bf16 or fp8.
//
// The norm is taken of the residual as it is stored, so that a row that was summed on one rank and
// one that was sent to it are normed to the same bits.
#pragma once

#include "stretto/device/lang/numbers.h"
#include "stretto/device/lang/shmem.h"
#include "stretto/device/norms.h"

namespace stretto::device {

template <class Block>
struct NormArgs {
  Ptr<Block, const Vec16> weight;     // local: row_vectors of 8 bf16
  Ptr<Block, const float> fp8_scale;  // local, one value; null: the result is bf16
  float epsilon;
};

STRETTO_PRIMITIVE float sum_of_squares(const Vec16& v) {
  float values[Bf16x8::kElements];
  Bf16x8::read(values, v);
  float sum = 0;
  STRETTO_UNROLL for (float value : values) sum += value * value;
  return sum;
}

STRETTO_PRIMITIVE void norm_vector(const Vec16& v, const Vec16& weight, float factor,
                                   float (&values)[Bf16x8::kElements]) {
  float weights[Bf16x8::kElements];
  Bf16x8::read(values, v);
  Bf16x8::read(weights, weight);
  STRETTO_UNROLL for (int i = 0; i < Bf16x8::kElements; ++i) values[i] *= factor * weights[i];
}

// Eight fp8 values of a normed vector, none of them a negative zero.
STRETTO_PRIMITIVE uint64 fp8_of(const float (&values)[Bf16x8::kElements], float inverse_scale) {
  float scaled[Bf16x8::kElements];
  STRETTO_UNROLL for (int i = 0; i < Bf16x8::kElements; ++i) {
    scaled[i] = values[i] * inverse_scale;
    if (scaled[i] >= -0.0009765625f && scaled[i] < 0.0f) scaled[i] = 0.0f;  // would round to -0
    scaled[i] += 0.0f;
  }
  return e4m3x4_from_floats(scaled) | static_cast<uint64>(e4m3x4_from_floats(scaled + 4)) << 32;
}

// Asks for the weights that the thread will need, while it has something else to wait for.
template <class Block>
STRETTO_PRIMITIVE void prefetch_weights(Block& block, const NormArgs<Block>& norm,
                                        uint32 row_vectors) {
  for (auto v = static_cast<uint32>(block.thread_idx()); v < row_vectors;
       v += static_cast<uint32>(block.num_threads())) {
    block.prefetch(norm.weight + v);
  }
}

// A thread's part of a row that the block makes, one vector after the other: what it needs to norm
// it. The last vector and not the first, since that takes no registers while the next one is made.
struct MadeRow {
  STRETTO_PRIMITIVE void add(uint32 v, const Vec16& h) {
    last = h;
    at = v;
    squares += sum_of_squares(h);
  }
  // After a wait that failed: the row is not normed.
  STRETTO_PRIMITIVE void drop() {
    last = {};
    at = kNoVector;
    squares = 0;
  }
  static constexpr uint32 kNoVector = 0xffffffffu;
  Vec16 last = {};
  uint32 at = kNoVector;  // index of `last`
  float squares = 0;      // summed over all vectors
};

// Norms a row. `kept(v)` is vector v again, for those that the thread does not hold. `send` gets
// each vector's index and its eight values.
template <class Block, class Kept, class Send>
STRETTO_PRIMITIVE void norm_row(Block& block, const NormArgs<Block>& norm, uint64 row_vectors,
                                Kept kept, const MadeRow& row, Send send) {
  // What the sum need not wait for comes before it.
  const auto vectors = static_cast<uint32>(row_vectors);
  Vec16 last_weight = {};
  if (row.at < vectors) last_weight = norm.weight[row.at];
  float inverse_scale = 0;
  if (norm.fp8_scale) inverse_scale = 1.0f / norm.fp8_scale[0];
  const float factor =
      norm_factor(block.sum(row.squares), row_vectors * Bf16x8::kElements, norm.epsilon);
  if (row.at >= vectors) return;
  for (auto v = static_cast<uint32>(block.thread_idx()); v < vectors;
       v += static_cast<uint32>(block.num_threads())) {
    Vec16 h = row.last;
    Vec16 weight = last_weight;
    if (v != row.at) {
      h = kept(v);
      weight = norm.weight[v];
    }
    float values[Bf16x8::kElements];
    norm_vector(h, weight, factor, values);
    send(v, values, inverse_scale);
  }
}

// Stores a normed vector in the output's format.
template <class Block>
STRETTO_PRIMITIVE void store_normed(Ptr<Block, Vec16> row, uint64 v, bool fp8,
                                    const float (&values)[Bf16x8::kElements], float inverse_scale) {
  if (fp8) {
    pointer_cast<uint64>(row)[v] = fp8_of(values, inverse_scale);
  } else {
    row[v] = canonical<Bf16x8>(Bf16x8::round(values));
  }
}

// sums += residual, rounded.
STRETTO_PRIMITIVE Vec16 add_residual(const Vec16& residual, float (&sums)[Bf16x8::kElements]) {
  Bf16x8::add(sums, residual);
  return canonical<Bf16x8>(Bf16x8::round(sums));
}

// Residual and RMSNorm of rows that need no communication: what follows a library's all-reduce.
template <class Block>
struct AddNormArgs {
  Ptr<Block, const Vec16> input;     // rows x row_vectors
  Ptr<Block, const Vec16> residual;  // the same
  Ptr<Block, Vec16> new_residual;    // the same, may be `residual`
  Ptr<Block, Vec16> output;          // the same, half of it in fp8
  NormArgs<Block> norm;
  uint64 rows;
  uint64 row_vectors;
};

template <class Block>
STRETTO_KERNEL void add_norm(Block& block, const AddNormArgs<Block>& args) {
  const bool fp8 = static_cast<bool>(args.norm.fp8_scale);
  const auto begin = static_cast<uint64>(block.thread_idx());
  for (auto row = static_cast<uint64>(block.block_idx()); row < args.rows;
       row += static_cast<uint64>(block.num_blocks())) {
    auto kept = args.new_residual + row * args.row_vectors;
    MadeRow made;
    for (uint64 v = begin; v < args.row_vectors; v += static_cast<uint64>(block.num_threads())) {
      const Vec16 value = args.input[row * args.row_vectors + v];
      const Vec16 residual = args.residual[row * args.row_vectors + v];
      float sums[Bf16x8::kElements];
      Bf16x8::read(sums, value);
      const Vec16 h = add_residual(residual, sums);
      kept[v] = h;
      made.add(static_cast<uint32>(v), h);
    }
    auto out = args.output + row * args.row_vectors / (fp8 ? 2 : 1);
    norm_row(
        block, args.norm, args.row_vectors, [&](uint32 v) -> Vec16 { return kept[v]; }, made,
        [&](uint64 v, const float(&values)[Bf16x8::kElements], float inverse_scale) {
          store_normed<Block>(out, v, fp8, values, inverse_scale);
        });
  }
}

}  // namespace stretto::device

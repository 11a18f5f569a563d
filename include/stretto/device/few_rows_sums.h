// Sums of the kernel of few rows in shared memory: where consumers keep them, and vectors of what
// consumers and ranges of K have together.
#pragma once

#include "stretto/device/elements.h"
#include "stretto/device/few_rows_block.h"
#include "stretto/device/few_rows_follow.h"
#include "stretto/device/gemm_follow.h"
#include "stretto/device/ptx_barrier.h"
#include "stretto/device/ptx_memory.h"

namespace stretto::device {

#ifdef STRETTO_DEVICE

// A lane has rows r and r + 1 of every eight, of columns c and c + 8.
template <FewRowsConfig kConfig>
STRETTO_DEVICE void few_rows_keep(const FewRowsShared<kConfig>& shared, uint32 consumer,
                                  const float (&sums)[kConfig.rows / 2]) {
  const uint32 lane = threadIdx.x % 32;
  const uint32 column = threadIdx.x % kWarpgroup / 32 * 16 + lane / 4;
#pragma unroll
  for (int32 i = 0; i < kConfig.rows / 2; ++i) {
    const uint32 row = i / 4 * 8 + lane % 4 * 2 + i % 2;
    store_shared_word(shared.sum(consumer, row, column + i % 4 / 2 * 8), bits_of_float(sums[i]));
  }
}

// The same, rounded. What a warp holds of eight rows and eight columns is stored with a row's
// columns beside each other.
template <FewRowsConfig kConfig>
STRETTO_DEVICE void few_rows_keep_rounded(const FewRowsShared<kConfig>& shared, uint32 consumer,
                                          bool canonical, const float (&sums)[kConfig.rows / 2]) {
  using Half = typename HalfOf<kConfig.bf16>::Type;
  const uint32 lane = threadIdx.x % 32, which = lane / 8;  // of four matrices: its rows, by lanes
  const uint32 column = threadIdx.x % kWarpgroup / 32 * 16 + which % 2 * 8;
  const uint32 to = shared.element(consumer, which / 2 * 8 + lane % 8, column);
#pragma unroll
  for (int32 i = 0; i < kConfig.rows / 2; i += 8) {
    uint32 words[4];
#pragma unroll
    for (int32 j = 0; j < 4; ++j) {
      words[j] = Half::round_pair(sums[i + 2 * j], sums[i + 2 * j + 1]);
      if (canonical) words[j] = Half::canonical(words[j]);
    }
    store_matrices_transposed(to + i * 2 * FewRowsShared<kConfig>::kLayout.row_bytes, words);
  }
}

// Adds eight sums that block `from` of the cluster has at this address of its shared memory.
template <int32 kSplits>
STRETTO_DEVICE void add_sums_of(uint32 from, uint32 address, float (&sums)[8]) {
  if constexpr (kSplits > 1) address = shared_address_in(from, address);
#pragma unroll
  for (int32 i = 0; i < 8; i += 4) {
    const Vec16 four =
        kSplits > 1 ? load_cluster_vector(address + i * 4) : load_shared_vector(address + i * 4);
#pragma unroll
    for (int32 j = 0; j < 4; ++j) sums[i + j] += float_of_bits(four.word[j]);
  }
}

// Eight columns of a row of the tile, of all that have sums of them.
template <FewRowsConfig kConfig>
STRETTO_DEVICE void few_rows_add_up(const FewRowsShared<kConfig>& shared, uint32 row, uint32 column,
                                    float (&sums)[8]) {
  constexpr uint32 kHalf = kConfig.is_wide() ? kConfig.columns / 2 : kConfig.columns;
  constexpr int32 kTurns = kConfig.is_wide() ? 1 : kConfig.consumers;
#pragma unroll
  for (float& sum : sums) sum = 0;
#pragma unroll
  for (int32 from = 0; from < kConfig.splits; ++from) {
#pragma unroll
    for (int32 turn = 0; turn < kTurns; ++turn) {
      const uint32 address = shared.sum(column / kHalf + turn, row, column % kHalf);
      add_sums_of<kConfig.splits>(from, address, sums);
    }
  }
}

// What is stored of eight columns of the tile, rounded; they are `of_product` of the result.
template <FewRowsConfig kConfig>
STRETTO_DEVICE Vec16 few_rows_rounded(const FewRowsParams& params,
                                      const FewRowsShared<kConfig>& shared, uint32 row,
                                      uint32 column, uint32 of_product, bool canonical) {
  using Half = typename HalfOf<kConfig.bf16>::Type;
  if constexpr (FewRowsShared<kConfig>::kLayout.is_rounded) {
    constexpr uint32 kHalf = kConfig.is_wide() ? kConfig.columns / 2 : kConfig.columns;
    return load_shared_vector(shared.element(column / kHalf, row, column % kHalf));
  }
  float sums[8];
  few_rows_add_up<kConfig>(shared, row, column, sums);
  if constexpr (kConfig.follows()) {
    few_rows_follow<kConfig>(params, of_product, 0, sums);
    if constexpr (kConfig.is_gated()) {
      float beside[8];
      few_rows_add_up<kConfig>(shared, row, kConfig.stored_columns() + column, beside);
      few_rows_follow<kConfig>(params, of_product, 1, beside);
#pragma unroll
      for (int32 i = 0; i < 8; ++i) sums[i] *= beside[i];
    }
  }
  Vec16 value;
#pragma unroll
  for (int32 i = 0; i < 4; ++i) {
    value.word[i] = Half::round_pair(sums[2 * i], sums[2 * i + 1]);
    if (canonical) value.word[i] = Half::canonical(value.word[i]);
  }
  return value;
}

#endif  // STRETTO_DEVICE

}  // namespace stretto::device

// What a block of the kernel of few rows has in shared memory, and which part of the product.
#pragma once

#include "stretto/device/few_rows_task.h"
#include "stretto/device/ptx_barrier.h"

namespace stretto::device {

#ifdef STRETTO_DEVICE

// Shared-memory addresses of one block; the same in all blocks of a cluster.
template <FewRowsConfig kConfig>
struct FewRowsShared {
  static constexpr FewRowsLayout kLayout = layout_of(kConfig);
  static constexpr uint32 kConsumerWarps = kConfig.consumers * kWarpgroup / 32;
  // A consumer's warps, or those of both where a stage is not one's own.
  static constexpr uint32 kReleases = kConfig.is_wide() ? kConsumerWarps : kWarpgroup / 32;
  uint32 a, b, full, a_empty, b_empty, kept_full, kept_empty;

  STRETTO_DEVICE explicit FewRowsShared(uint32 base) {
    a = (base + 1023) & ~1023u;
    asm volatile("" : "+r"(a));  // found once, not in every turn of a loop
    b = a + kConfig.stages * kLayout.a_bytes;
    full = a + kLayout.barriers;
    a_empty = full + kConfig.stages * 8;
    b_empty = a_empty + kConfig.stages * 8;
    kept_full = b_empty + kConfig.stages * 8;
    kept_empty = kept_full + 8;
  }
  // A consumer's, once stages are no longer read.
  STRETTO_DEVICE uint32 sum(uint32 consumer, uint32 row, uint32 column) const {
    return a + consumer * kLayout.sum_bytes + row * kLayout.row_bytes + column * 4;
  }
  // Rounded.
  STRETTO_DEVICE uint32 element(uint32 consumer, uint32 row, uint32 column) const {
    return a + kLayout.kept + row * kLayout.row_bytes + (consumer * kFewRowsColumns + column) * 2;
  }
  STRETTO_DEVICE void init_barriers() const {
    for (int32 i = 0; i < kConfig.stages; ++i) {
      barrier_init(full + i * 8, kConfig.is_gated() ? 3 : 2);  // who loads
      barrier_init(a_empty + i * 8, kReleases * kConfig.row_blocks);
      barrier_init(b_empty + i * 8, kReleases * kConfig.column_blocks);
    }
    if constexpr (kConfig.sends_beside()) {
      barrier_init(kept_full, kConsumerWarps);
      barrier_init(kept_empty, kConfig.senders);
    }
    fence_barrier_init();
  }
};

// A block's part: where its tile begins, which blocks of K, and where it is in its cluster.
struct FewRowsPart {
  uint32 column, row;
  uint32 first_k, end_k;
  uint32 range;
  uint32 of_rows, of_columns;  // among those that share weights, and tokens
};
template <FewRowsConfig kConfig>
STRETTO_DEVICE FewRowsPart part_of_block(const FewRowsParams& params, uint32 block) {
  const uint32 cluster = block / kConfig.cluster(), in = block % kConfig.cluster();
  const uint32 range = in % kConfig.splits, of_rows = in / kConfig.splits % kConfig.row_blocks;
  const uint32 of_columns = in / kConfig.splits / kConfig.row_blocks;
  uint32 column_group = cluster / params.row_groups, row_group = cluster % params.row_groups;
  if constexpr (kConfig.sends_beside()) {
    if (params.by_rows != 0) {
      column_group = cluster % params.column_groups;
      row_group = (cluster / params.column_groups + params.first_group) % params.row_groups;
    }
  }
  const uint32 columns = column_group * kConfig.column_blocks + of_columns;
  const uint32 rows = row_group * kConfig.row_blocks + of_rows;
  return {columns * kConfig.stored_columns(),
          rows * kConfig.rows,
          params.num_k * range / kConfig.splits,
          params.num_k * (range + 1) / kConfig.splits,
          range,
          of_rows,
          of_columns};
}

#endif  // STRETTO_DEVICE

}  // namespace stretto::device

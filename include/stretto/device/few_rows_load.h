// How stages of the kernel of few rows are filled and let go, by blocks that may share them.
#pragma once

#include "stretto/device/few_rows_block.h"
#include "stretto/device/launch_order.h"
#include "stretto/device/ptx_barrier.h"
#include "stretto/device/ptx_tma.h"

namespace stretto::device {

#ifdef STRETTO_DEVICE

// An operand: its rows from `row` on, in a stage's part from `stages` on. Of `pieces` that blocks
// of the cluster load for each other this block has one, `piece`, for all in `block_mask`.
struct FewRowsOperand {
  const TensorMap* map;
  uint32 row, stages, empty;
  int32 stage_bytes, loaded_bytes;  // of all pieces
  uint32 piece;
  int32 pieces;
  uint16 block_mask;
};

// One operand's boxes of a tile, by a thread. Ahead of its first tile it waits for what is ahead on
// the stream, as all threads do; `early` of its blocks it asks for before.
template <FewRowsConfig kConfig>
STRETTO_DEVICE void few_rows_load(const FewRowsShared<kConfig>& shared, const FewRowsPart& part,
                                  const FewRowsOperand& of, bool is_first, uint32 early,
                                  RingPosition& ring) {
  const uint32 piece_bytes = of.loaded_bytes / of.pieces;
  const uint32 stages = of.stages + of.piece * piece_bytes;
  const auto row = static_cast<int32>(of.row + of.piece * (piece_bytes / (kTileK * 2)));
  const uint32 blocks = part.end_k - part.first_k;
  const uint32 before = early < blocks ? early : blocks;
#pragma unroll 1
  for (uint32 i = 0; i < blocks; ++i) {
    if (is_first && i == before) wait_for_stream();
    const uint32 full = shared.full + ring.slot * 8;
    barrier_wait(of.empty + ring.slot * 8, ring.parity ^ 1);
    barrier_arrive_expect(full, of.loaded_bytes);
    const uint32 to = stages + ring.slot * of.stage_bytes;
    const auto k = static_cast<int32>((part.first_k + i) * kTileK);
    if constexpr (kConfig.shares()) {
      tma_load_multicast(to, of.map, k, row, full, of.block_mask);
    } else {
      tma_load(to, of.map, k, row, full);
    }
    ring.template advance<kConfig.stages>();
  }
  if (is_first && before == blocks) wait_for_stream();
}

// Lets those who load for this block fill a stage again: a warp says so to each, a lane to one.
template <FewRowsConfig kConfig>
STRETTO_DEVICE void few_rows_release(const FewRowsShared<kConfig>& shared, const FewRowsPart& part,
                                     uint32 slot) {
  const uint32 lane = threadIdx.x % 32;
  if constexpr (!kConfig.shares()) {
    if (lane < 2) barrier_arrive((lane == 0 ? shared.a_empty : shared.b_empty) + slot * 8);
  } else {
    constexpr uint32 kRowBlocks = kConfig.row_blocks, kColumnBlocks = kConfig.column_blocks;
    if (lane >= kRowBlocks + kColumnBlocks) return;
    const bool weights = lane < kRowBlocks;
    const uint32 to = weights ? part.of_columns * kRowBlocks + lane
                              : (lane - kRowBlocks) * kRowBlocks + part.of_rows;
    barrier_arrive_at((weights ? shared.a_empty : shared.b_empty) + slot * 8, to);
  }
}

#endif  // STRETTO_DEVICE

}  // namespace stretto::device

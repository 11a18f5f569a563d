// Copies the first rows of a matrix, as many as stand in memory (rows_of_call.h): out of what a
// library, which cannot look there, has computed of all rows, so that the others stay as they were.
#pragma once

#include "stretto/device/lang/kernels/rows_of_call.h"

namespace stretto::device {

template <class Block>
struct CopyRowsArgs {
  Ptr<Block, const Vec16> input;  // local, without gaps
  Ptr<Block, Vec16> output;       // local, not the input
  RowsOfCall<Block> rows;
};

// Waits for nobody; of any grid.
template <class Block, int kInFlight = 4>
STRETTO_KERNEL void copy_rows(Block& block, const CopyRowsArgs<Block>& args) {
  const uint64 end = args.rows.vectors();
  const auto threads = static_cast<uint64>(block.num_threads());
  const uint64 step = threads * static_cast<uint64>(block.num_blocks());
  for (uint64 i = threads * static_cast<uint64>(block.block_idx()) +
                  static_cast<uint64>(block.thread_idx());
       i < end; i += kInFlight * step) {
    Vec16 values[kInFlight];
    STRETTO_UNROLL for (int v = 0; v < kInFlight; ++v) {
      if (i + static_cast<uint64>(v) * step < end) {
        values[v] = args.input[i + static_cast<uint64>(v) * step];
      }
    }
    STRETTO_UNROLL for (int v = 0; v < kInFlight; ++v) {
      if (i + static_cast<uint64>(v) * step < end) {
        args.output[i + static_cast<uint64>(v) * step] = values[v];
      }
    }
  }
}

}  // namespace stretto::device

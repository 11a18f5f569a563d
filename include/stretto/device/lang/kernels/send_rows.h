// Sends rows that a kernel has made, for a collective that only receives (call.h): what the blocks
// of a product of few rows do by themselves (few_rows_task.h).
#pragma once

#include "stretto/device/lang/kernels/slots.h"

namespace stretto::device {

template <class Block>
struct SendRowsArgs {
  Ptr<Block, const Vec16> input;  // local: rows x row_vectors
  uint64 rows, row_vectors;
  uint64 part_rows;                // a rank takes its own rows, so many each; 0: all take all
  Ptr<Block, Vec16> slots;         // symmetric: where vector 0 goes in a call of parity 0
  uint64 parity_vectors;           // from there to those of parity 1
  Ptr<Block, const uint64> state;  // local, of the collective
};

// To the slots of every rank that takes a vector, this one too.
template <class Format, class Block>
STRETTO_KERNEL void send_rows(Block& block, const SendRowsArgs<Block>& args) {
  block.wait_for_kernel_before();
  block.let_next_start();
  const auto row_vectors = static_cast<uint32>(args.row_vectors);
  const auto part = static_cast<uint32>(args.part_rows) * row_vectors;
  const uint32 count = static_cast<uint32>(args.rows) * row_vectors;
  const auto step = static_cast<uint32>(block.num_blocks() * block.num_threads());
  auto i = static_cast<uint32>(block.block_idx() * block.num_threads() + block.thread_idx());
  const uint64 calls = args.state[0];
  auto now = args.slots + calls % 2 * args.parity_vectors;
  for (; i < count; i += step) {
    const Vec16 value = canonical<Format>(args.input[i]);
    if (part != 0) {
      const uint32 owner = i / part;
      block.store(block.peer(now, static_cast<int>(owner)) + (i - owner * part), value);
      continue;
    }
    for (int k = 1; k <= block.num_ranks(); ++k) {
      block.store(block.peer(now, rank_after(block.rank(), k, block.num_ranks())) + i, value);
    }
  }
}

}  // namespace stretto::device

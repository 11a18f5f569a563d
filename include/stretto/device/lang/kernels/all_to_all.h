// Low-latency all-to-all of tokens: fp8 payload with scales, any number of tokens to each rank.
// (Triton-distributed's front page; there the host counts the calls, here the device does.)
//
// Launch num_ranks blocks: block b serves one peer both ways. The signal carries the call's number
// above the token count, so no count travels alone. Receive slots alternate between calls. That is
// enough: whoever sends call e to a rank has seen that rank's call e-1, which that rank began after
// its stream had consumed call e-2, whose slot call e overwrites.
#pragma once

#include "stretto/device/lang/shmem.h"

namespace stretto::device {

template <class Block>
struct AllToAllArgs {
  Ptr<Block, const uint8> tokens;    // local, sorted by destination: rows of row_bytes
  Ptr<Block, const float> scales;    // local: rows of scales_per_row
  Ptr<Block, const uint32> offsets;  // local, num_ranks + 1: rank r gets rows [r, r + 1)
  uint64 row_bytes;
  uint64 scales_per_row;
  uint64 max_rows;                // that one rank may send another
  Ptr<Block, uint8> slots;        // symmetric: 2 x num_ranks x max_rows x row_bytes
  Ptr<Block, float> scale_slots;  // symmetric: 2 x num_ranks x max_rows x scales_per_row
  Ptr<Block, uint64> signals;     // symmetric: 2 x num_ranks, zero at first
  Ptr<Block, uint64> shapes;      // symmetric: 2 x num_ranks, zero at first
  Ptr<Block, uint64> calls;       // local: num_ranks, zero at first
  Ptr<Block, uint32> received;    // local: 2 x num_ranks, rows from each rank in this call's half
  Ptr<Block, uint32> refused;     // local: rows over max_rows that were not sent, added up
};

template <class Block>
STRETTO_KERNEL void all_to_all(Block& block, const AllToAllArgs<Block>& args) {
  Shmem shmem(block);
  const int ranks = shmem.n_pes();
  const int me = shmem.my_pe();
  const int to = (me + 1 + block.block_idx()) % ranks;
  const int from = (me + 2 * ranks - 1 - block.block_idx()) % ranks;

  const uint64 call = args.calls[block.block_idx()] + 1;
  const uint64 half = call % 2 * static_cast<uint64>(ranks);
  const uint64 own_slot = half + static_cast<uint64>(me);
  const uint64 their_slot = half + static_cast<uint64>(from);

  const uint32 first = args.offsets[to];
  const uint32 end = args.offsets[to + 1];
  const uint64 wanted = end - first;
  const uint64 rows = wanted < args.max_rows ? wanted : args.max_rows;
  const uint64 row_scales = args.scales_per_row;
  const uint64 shape = args.row_bytes << 32 | row_scales;
  shmem.putmem_nbi_block(args.scale_slots + own_slot * args.max_rows * row_scales,
                         args.scales + first * row_scales, rows * row_scales * sizeof(float), to);
  shmem.putmem_nbi_block(args.slots + own_slot * args.max_rows * args.row_bytes,
                         args.tokens + first * args.row_bytes, rows * args.row_bytes, to);
  block.sync();
  if (block.thread_idx() == 0) {
    if (wanted > rows) {
      block.fetch_add(args.refused, static_cast<uint32>(wanted - rows), Order::kRelaxed,
                      Scope::kGpu);
    }
    // Whoever sees the signal sees the shape and the rows: one fence is before both.
    const auto set = [&](Ptr<Block, uint64> word, uint64 value) {
      block.signal(word + own_slot, value, SignalOp::kSet, to, Where::here(), Order::kRelaxed);
    };
    set(args.shapes, shape);
    shmem.fence();
    set(args.signals, (call << 32) + rows);
  }
  if (!shmem.signal_wait_until_block(args.signals + their_slot, Compare::kGe, call << 32)) return;
  bool differs = false;
  if (block.thread_idx() == 0) {
    const uint64 theirs = shmem.signal_fetch(args.shapes + their_slot);
    differs = theirs != shape;
    if (theirs >> 32 != args.row_bytes) {
      block.disagree(from, "row_bytes", 0, args.row_bytes, theirs >> 32);
    } else if (differs) {
      block.disagree(from, "scales_per_row", 1, row_scales, theirs & 0xffffffffu);
    }
  }
  if (block.sync_or(differs)) return;
  if (block.thread_idx() == 0) {
    args.received[their_slot] = static_cast<uint32>(shmem.signal_fetch(args.signals + their_slot));
    args.calls[block.block_idx()] = call;
  }
}

}  // namespace stretto::device

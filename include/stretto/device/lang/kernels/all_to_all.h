// Low-latency all-to-all of tokens: fp8 payload with scales, any number of tokens to each rank.
// (Triton-distributed's front page; there the host counts the calls, here the device does.)
//
// Launch num_ranks blocks: block b serves one peer both ways. The signal carries the call's number
// above the row count, so no count travels alone. Receive slots alternate between calls. That is
// enough: whoever sends call e to a rank has seen that rank's call e-1, which that rank began after
// its stream had consumed call e-2, whose slot call e overwrites.
#pragma once

#include "stretto/device/lang/shmem.h"

namespace stretto::device {

// The widths of what travels in one word: the number of the call above the rows, and sizes. What
// does not fit is refused before a launch.
inline constexpr uint32 kRowBits = 20;
inline constexpr uint32 kRowBytesBits = 24;
inline constexpr uint64 kMostRows = (1ull << kRowBits) - 1;  // and scales of a row
inline constexpr uint64 kMostRowBytes = (1ull << kRowBytesBits) - 1;

// Of each source and half of the calls, a line of 128 bytes: its signal and its sizes.
inline constexpr uint32 kPeerWords = 16;
STRETTO_HOST_DEVICE uint64 all_to_all_signals(uint64 ranks) { return 2 * ranks * kPeerWords; }

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
  Ptr<Block, uint64> signals;     // symmetric: all_to_all_signals(), zero at first
  Ptr<Block, uint64> calls;       // local: num_ranks, zero at first
  Ptr<Block, uint32> received;    // local: 2 x num_ranks, rows from each rank in this call's half
  // Local: rows that were not sent, added up: those over max_rows, and as many as offsets fall by.
  Ptr<Block, uint32> refused;
};

// What all ranks must call with, in one word.
struct AllToAllSizes {
  STRETTO_HOST_DEVICE uint64 packed() const {
    return row_bytes << 2 * kRowBits | scales_per_row << kRowBits | max_rows;
  }
  // Says what differs, where something does.
  template <class Block>
  STRETTO_PRIMITIVE bool same(Block& block, int rank, uint64 theirs) const {
    if (theirs == packed()) return true;
    const uint64 their_bytes = theirs >> 2 * kRowBits;
    const uint64 their_scales = theirs >> kRowBits & kMostRows;
    if (their_bytes != row_bytes) {
      block.disagree(rank, "row_bytes", 0, row_bytes, their_bytes);
    } else if (their_scales != scales_per_row) {
      block.disagree(rank, "scales_per_row", 1, scales_per_row, their_scales);
    } else {
      block.disagree(rank, "max_rows", 2, max_rows, theirs & kMostRows);
    }
    return false;
  }
  uint64 row_bytes, scales_per_row, max_rows;
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
  const uint64 wanted = end > first ? end - first : 0;
  const uint64 rows = wanted < args.max_rows ? wanted : args.max_rows;
  const AllToAllSizes sizes{args.row_bytes, args.scales_per_row, args.max_rows};
  shmem.putmem_nbi_block(args.scale_slots + own_slot * args.max_rows * args.scales_per_row,
                         args.scales + first * args.scales_per_row,
                         rows * args.scales_per_row * sizeof(float), to);
  shmem.putmem_nbi_block(args.slots + own_slot * args.max_rows * args.row_bytes,
                         args.tokens + first * args.row_bytes, rows * args.row_bytes, to);
  block.sync();
  if (block.thread_idx() == 0) {
    const uint64 refused = end < first ? first - end : wanted - rows;
    if (refused > 0) {
      block.fetch_add(args.refused, static_cast<uint32>(refused), Order::kRelaxed, Scope::kGpu);
    }
    // Whoever sees the signal sees the sizes and the rows: one fence is before both.
    const auto set = [&](uint64 word, uint64 value) {
      block.signal(args.signals + (own_slot * kPeerWords + word), value, SignalOp::kSet, to,
                   Where::here(), Order::kRelaxed);
    };
    set(1, sizes.packed());
    shmem.fence();
    set(0, (call << kRowBits) + rows);
  }
  auto theirs = args.signals + their_slot * kPeerWords;
  if (!shmem.signal_wait_until_block(theirs, Compare::kGe, call << kRowBits)) return;
  bool differs = false;
  if (block.thread_idx() == 0) {
    differs = !sizes.same(block, from, shmem.signal_fetch(theirs + 1));
  }
  if (block.sync_or(differs)) return;
  if (block.thread_idx() == 0) {
    args.received[their_slot] = static_cast<uint32>(shmem.signal_fetch(theirs) & kMostRows);
    args.calls[block.block_idx()] = call;
  }
}

}  // namespace stretto::device

// Slots whose data says itself that it has come.
//
// Every element is sent as a value that is never the sentinel (a negative zero), and slots hold the
// sentinel until the value comes. Whoever has read a slot poisons it again before its next use.
#pragma once

#include "stretto/device/lang/kernels/call.h"
#include "stretto/device/lang/kernels/greeting.h"

namespace stretto::device {

// Vectors whose loads one thread has in flight by default.
inline constexpr int kBatch = 8;

// This thread's share of `count` vectors to a slot, here or at a peer.
template <class Format, class Block>
STRETTO_PRIMITIVE void send_to_slot(Block& block, const CallShare& share,
                                    Ptr<Block, const Vec16> from, Ptr<Block, Vec16> slot,
                                    uint64 count) {
  constexpr int kUnroll = 4;
  for (uint64 i = share.first; i < count; i += kUnroll * share.step) {
    Vec16 values[kUnroll];
    STRETTO_UNROLL for (uint64 u = 0; u < kUnroll; ++u) {
      if (i + u * share.step < count) values[u] = from[i + u * share.step];
    }
    STRETTO_UNROLL for (uint64 u = 0; u < kUnroll; ++u) {
      if (i + u * share.step < count) {
        block.store(slot + (i + u * share.step), canonical<Format>(values[u]));
      }
    }
  }
}

// How the first hop of a two-shot kernel is shared out. kByRank: to one rank after the other, each
// thread the same vectors of all; for few vectors that is a few blocks, and a thread's loads for
// one rank come after its stores to the rank before. kByPiece: a block takes pieces, of each rank
// in turn, so that all blocks send and all ranks get their first pieces first.
// Not in place by piece: another block than an element's reader may write its sum, and no release
// orders the two.
enum class Send : uint8 { kByRank, kByPiece };

// Vectors that a block sends together to one slot, or clears.
template <class Block>
struct Piece {
  Ptr<Block, const Vec16> from;
  Ptr<Block, Vec16> to;
  uint32 count;
};

// Pieces in turns of blocks, each of at most `width` vectors: `piece(rank, p)` is the p-th, p <
// each, for another rank. The loads of kUnroll pieces go out together.
template <class Format, int kUnroll, class Block, class PieceOf>
STRETTO_PRIMITIVE void send_pieces(Block& block, uint32 each, uint32 width, PieceOf piece) {
  const auto others = static_cast<uint32>(block.num_ranks() - 1);
  const auto step = static_cast<uint32>(block.num_blocks());
  for (auto i = static_cast<uint32>(block.block_idx()); i < each * others; i += kUnroll * step) {
    uint32 p[kUnroll];
    int owner[kUnroll];
    STRETTO_UNROLL for (uint32 u = 0; u < kUnroll; ++u) {
      p[u] = (i + u * step) / others;
      owner[u] = block.rank() + 1 + static_cast<int>(i + u * step - p[u] * others);
      if (owner[u] >= block.num_ranks()) owner[u] -= block.num_ranks();
    }
    for (auto v = static_cast<uint32>(block.thread_idx()); v < width;
         v += static_cast<uint32>(block.num_threads())) {
      Vec16 values[kUnroll];
      STRETTO_UNROLL for (uint32 u = 0; u < kUnroll; ++u) {
        if (p[u] >= each) continue;
        const Piece<Block> sent = piece(owner[u], p[u]);
        if (v < sent.count) values[u] = sent.from[v];
      }
      STRETTO_UNROLL for (uint32 u = 0; u < kUnroll; ++u) {
        if (p[u] >= each) continue;
        const Piece<Block> sent = piece(owner[u], p[u]);
        if (v < sent.count) block.store(sent.to + v, canonical<Format>(values[u]));
      }
    }
  }
}

// Adds up, in rank order, this rank's `own` and the vectors at slots + r * stride of the others,
// each once it has come.
template <class Format, int kInFlight = kBatch, class Block>
STRETTO_PRIMITIVE bool sum_slots(Block& block, Ptr<Block, const Vec16> slots, uint64 stride,
                                 const Vec16& own, float (&sums)[Format::kElements],
                                 Where where = Where::here()) {
  const int ranks = block.num_ranks();
  const int me = block.rank();
  STRETTO_UNROLL for (float& sum : sums) sum = 0;
  for (int base = 0; base < ranks; base += kInFlight) {
    Vec16 values[kInFlight];
    const int count = ranks - base < kInFlight ? ranks - base : kInFlight;
    if (!block.wait_vectors_not(slots + static_cast<uint64>(base) * stride, stride, count,
                                me - base, Format::kPoison, values, where, base)) {
      return false;
    }
    STRETTO_UNROLL for (int j = 0; j < kInFlight; ++j) {
      if (base + j == me) values[j] = own;
      if (j < count) Format::add(sums, values[j]);
    }
  }
  return true;
}

// This thread's share of `count` vectors of every other rank's slot of each of the two hops of a
// two-shot kernel; slots are `stride` apart.
template <class Format, class Block>
STRETTO_PRIMITIVE void poison_two_hops(Block& block, const CallShare& share,
                                       Ptr<Block, Vec16> slots, uint64 stride, uint64 count) {
  const uint64 num_ranks = static_cast<uint32>(block.num_ranks());
  for (uint64 r = 0; r < 2 * num_ranks; ++r) {
    if (r % num_ranks == static_cast<uint64>(block.rank())) continue;
    for (uint64 i = share.first; i < count; i += share.step) {
      slots[r * stride + i] = four_of(Format::kPoison);
    }
  }
}

}  // namespace stretto::device

// What a plan gives to a kernel of a user's own that takes NCCL's place at an edge
// (docs/graph-format.md, "Kernels of your own"):
//
//   template <class Format, class Block>
//   STRETTO_KERNEL void ring_sum(Block& block, const EdgeArgs<Block>& args);
//
// `Format` says what is in a vector of 16 bytes: Bf16x8, Fp16x8, and Fp32x4 on the emulator.
//
// Rank r's part is vectors [r * part, (r + 1) * part) of `count`; the last ones may be shorter, or
// empty. A gather reads its own part and writes all; a reduce-scatter reads all and writes the sum
// of its own part; an all-reduce reads and writes all, and its parts are for who wants to share out
// the sum.
//
// In a plan as it was lowered all blocks of a call have an SM at once, so they may wait for each
// other and for other ranks'. All ranks make each call, with the same sizes, in the same order, any
// number of times: call e + 1 may begin on one rank while others are in call e. What a call leaves
// in slots and signals, the next one finds. After a call that failed on some rank all of it is as
// at first.
#pragma once

#include "stretto/device/lang/words.h"

namespace stretto::device {

template <class Block>
struct EdgeArgs {
  Ptr<Block, const Vec16> input;  // local
  Ptr<Block, Vec16> output;       // local, no part of the input
  uint64 part;
  uint64 count;
  Ptr<Block, Vec16> slots;  // symmetric: as many as the graph says, of `part` vectors each; every
                            // 16-bit word 0x8000 at first, as slots.h wants it
  Ptr<Block, uint64> signals;  // symmetric: as many as the graph says, 0 at first
  Ptr<Block, uint64> state;    // local: a word a block, 0 at first, for the number of its calls

  STRETTO_PRIMITIVE uint64 first(int rank) const {
    const uint64 begin = part * static_cast<uint64>(rank);
    return begin < count ? begin : count;
  }
  STRETTO_PRIMITIVE uint64 size_of(int rank) const { return first(rank + 1) - first(rank); }
};

}  // namespace stretto::device

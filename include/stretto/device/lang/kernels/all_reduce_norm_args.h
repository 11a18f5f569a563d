// Arguments of the kernels that reduce and norm (all_reduce_norm.h).
#pragma once

#include "stretto/device/lang/kernels/norm.h"

namespace stretto::device {

// As many as leave a thread of a block of that size enough registers. With more ranks than in
// flight a thread takes two turns; with fewer it has registers left.
STRETTO_HOST_DEVICE int norm_in_flight(int ranks, int threads, bool hopper) {
  if (!hopper && threads > 640) return 2;
  const int widest = hopper ? 640 : 512;
  return ranks <= 4 || threads > widest ? 4 : 8;
}

template <class Block>
struct AllReduceNormArgs {
  Ptr<Block, const Vec16> input;     // local: tokens x row_vectors
  Ptr<Block, const Vec16> residual;  // local: the same
  Ptr<Block, Vec16> new_residual;    // local, like `residual`, may be it
  Ptr<Block, Vec16> output;          // local: tokens x row_vectors, half of that in fp8
  NormArgs<Block> norm;
  uint64 tokens;
  uint64 row_vectors;           // even in fp8
  uint64 max_tokens;            // of any call
  Ptr<Block, Vec16> slots;      // symmetric, poisoned at first: 2 x ranks x max_tokens rows;
                                // two-shot: 2 x 2 x ranks x ceil(max_tokens / ranks) rows
  Ptr<Block, Vec16> greetings;  // symmetric, kNoGreeting at first: 3 x ranks
  Ptr<Block, uint64> state;     // local: num_blocks, zero at first
};

// Each rank keeps the residual of its own rows: `residual` and `new_residual` are those only.
template <class Block>
struct OwnRowsNormArgs : AllReduceNormArgs<Block> {};

}  // namespace stretto::device

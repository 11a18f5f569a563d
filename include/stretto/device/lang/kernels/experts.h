// What dispatch and combine of tokens to experts share: sizes, and how threads divide work.
//
// Rank r owns experts [r, r + 1) x experts / ranks. A token goes once to each rank that owns one of
// its experts, into that rank's slots for its source; entries tell which experts there, with which
// weight, and which place among the (token, expert) pairs of its source and expert.
#pragma once

#include "stretto/device/lang/numbers.h"
#include "stretto/device/lang/shmem.h"

namespace stretto::device {

inline constexpr uint32 kNone = 0xffffffffu;
inline constexpr uint32 kScaleGroup = 128;  // elements that share an fp8 scale
inline constexpr int kSendTokens = 16;      // whose places a block finds at a time

// The same on all ranks.
struct ExpertShape {
  uint32 hidden;      // elements of a token; a multiple of 8, in fp8 of 128
  uint32 experts;     // a multiple of the ranks
  uint32 top_k;       // at most `experts`
  uint32 max_tokens;  // of a rank
  uint32 max_rows;    // (token, expert) pairs that a rank has room for
  uint32 row_align;   // each expert's rows begin at a multiple
  uint32 fp8;         // 1: tokens travel as fp8 with a scale for 128 elements
};

// Why the shape cannot be served; null when it can.
STRETTO_HOST_DEVICE const char* why_illegal(const ExpertShape& shape, uint32 ranks) {
  if (shape.hidden == 0 || shape.hidden % 8 != 0) return "hidden must be a multiple of 8";
  if (shape.fp8 != 0 && shape.hidden % kScaleGroup != 0) {
    return "hidden must be a multiple of 128 for fp8, which has a scale for 128 elements";
  }
  if (shape.experts == 0 || shape.experts % ranks != 0) {
    return "experts must be a multiple of the ranks, each of which owns as many";
  }
  if (shape.top_k == 0 || shape.top_k > shape.experts) {
    return "top_k must be at least 1 and at most the number of experts";
  }
  if (shape.row_align == 0) return "row_align must be at least 1";
  if (ranks > 64) return "at most 64 ranks are served";
  return nullptr;
}

STRETTO_HOST_DEVICE uint64 token_vectors(const ExpertShape& shape) {
  return shape.hidden / (shape.fp8 != 0 ? 16 : 8);
}
STRETTO_HOST_DEVICE uint64 token_scales(const ExpertShape& shape) {
  return shape.fp8 != 0 ? shape.hidden / kScaleGroup : 0;
}
// Words of counts from one source: rows of each local expert, tokens, and the shape for comparison.
STRETTO_HOST_DEVICE uint64 count_words(const ExpertShape& shape, uint32 ranks) {
  return shape.experts / ranks + 4;
}
// Shared memory of a block of `threads`.
STRETTO_HOST_DEVICE uint64 dispatch_shared_bytes(const ExpertShape& shape, uint32 ranks,
                                                 uint32 threads) {
  return 8 * static_cast<uint64>(threads) +
         4 * (shape.experts + 2 * (shape.experts / ranks) + ranks + 1 +
              2 * kSendTokens * (shape.top_k + ranks) + static_cast<uint64>(threads) * shape.top_k);
}

// A thread's place in its block, for work that warps share.
struct Lanes {
  template <class Block>
  STRETTO_PRIMITIVE explicit Lanes(Block& block)
      : count(block.num_threads() < block.warp_size() ? block.num_threads() : block.warp_size()),
        lane(block.thread_idx() % count),
        warp(block.thread_idx() / count),
        warps(block.num_threads() / count) {}
  int count;
  int lane;
  int warp;
  int warps;
};

// Part `index` of `parts` about equal parts of `count`.
STRETTO_HOST_DEVICE uint32 part_begin(uint32 count, uint32 index, uint32 parts) {
  return static_cast<uint32>(static_cast<uint64>(count) * index / parts);
}

}  // namespace stretto::device

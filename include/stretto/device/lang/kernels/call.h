// A call of a kernel that all ranks make together and that has two or three buffers, by call.
//
// What a call writes at a peer goes to buffer call % n; by the greetings of call e (greeting.h) a
// rank in call e + 1 knows that all have ended call e - 1. So three buffers are enough where call e
// clears the one of call e - 1, and two where each reader clears what it has read.
//
// The grid must be the same in every call, and so must the kernel and what says where it puts
// things (maxima, the vectors of a row): its symmetric memory and `state` are shared with no other
// kernel. `state`, local and zero at first, holds a word a block: calls so far. After a call that
// failed on some rank it is zero again on all, and symmetric memory is as at first.
#pragma once

#include "stretto/device/lang/words.h"

namespace stretto::device {

struct CallShare {
  uint64 call;
  uint64 now;     // which of three buffers this call uses
  uint64 before;  // and the call before used
  uint32 parity;  // which of two
};

template <class Block>
STRETTO_KERNEL CallShare begin_call(Block& block, Ptr<Block, uint64> state) {
  const uint64 call = state[block.block_idx()];
  return {call, call % 3, (call + 2) % 3, static_cast<uint32>(call % 2)};
}

// A call that failed on some thread is not counted.
template <class Block>
STRETTO_KERNEL void end_call(Block& block, Ptr<Block, uint64> state, uint64 call, bool good) {
  if (block.sync_or(!good) || block.thread_idx() != 0) return;
  state[block.block_idx()] = call + 1;
}

// Rank (me + k) % ranks, for k up to ranks.
STRETTO_PRIMITIVE int rank_after(int me, int k, int ranks) {
  const int rank = me + k;
  return rank < ranks ? rank : rank - ranks;
}

// What one thread does of work that is shared out by warps: items first, first + step, ... Warps of
// neighbouring items are of different blocks, so that few items keep all blocks busy. The last of
// several blocks has none: it greets (greeting.h), and whoever waits for it would wait longer.
struct ThreadShare {
  static constexpr uint32 kNone = ~0u;  // no item has this number

  template <class Block>
  STRETTO_PRIMITIVE static ThreadShare of(Block& block) {
    const auto thread = static_cast<uint32>(block.thread_idx());
    const auto threads = static_cast<uint32>(block.num_threads());
    const auto index = static_cast<uint32>(block.block_idx());
    const auto all = static_cast<uint32>(block.num_blocks());
    const auto warp = static_cast<uint32>(block.warp_size());
    const uint32 blocks = all > 1 ? all - 1 : 1;
    const uint32 step = blocks * threads;
    if (index == blocks) return {kNone, step};
    if (threads % warp != 0) return {index * threads + thread, step};
    return {(thread / warp * blocks + index) * warp + thread % warp, step};
  }
  uint32 first;
  uint32 step;
};

}  // namespace stretto::device

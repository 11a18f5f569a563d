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
//
// Some kernels may leave sending to the kernel right before them on the stream (SentBy::kBefore):
// send_rows.h, or a product whose blocks send what they have multiplied (few_rows_task.h). That
// waits for its stream, lets the next kernel start, and sends what this rank would send, and to its
// own slots too what it keeps. The receiving kernel may start early, for by then call e - 1 has
// ended here: the sender has waited for it. So its greeting in call e says what one says that is
// sent behind the sender. Who has heard all greetings of call e - 1 may send in call e: all have
// ended call e - 2, and the slots of its parity are clear. A call is counted behind the sender's
// end, since the sender reads the count. All calls but for who sends are alike, and may take turns.
#pragma once

#include "stretto/device/lang/words.h"

namespace stretto::device {

struct CallShare {
  uint64 call;
  uint64 now;     // which of three buffers this call uses
  uint64 before;  // and the call before used
  uint32 parity;  // which of two
};

STRETTO_PRIMITIVE CallShare share_of_call(uint64 call) {
  return {call, call % 3, (call + 2) % 3, static_cast<uint32>(call % 2)};
}

// Which kernel of the stream sends a call's data: the one that takes part in the call, or the one
// before it.
enum class SentBy : uint8 { kThis, kBefore };

template <class Block, SentBy kSentBy = SentBy::kThis>
STRETTO_KERNEL CallShare begin_call(Block& block, Ptr<Block, uint64> state) {
  uint64 call;
  if constexpr (kSentBy == SentBy::kBefore) {
    block.let_next_start();
    call = block.load(state + block.block_idx(), Order::kRelaxed, Scope::kGpu);
  } else {
    call = state[block.block_idx()];
  }
  return share_of_call(call);
}

// Of a kernel that may begin before the one ahead of it has ended, and is not sent to by that: it
// has no wait between this and the call before, so it reads past L1.
template <class Block>
STRETTO_KERNEL CallShare begin_early_call(Block& block, Ptr<Block, uint64> state) {
  return share_of_call(block.load(state + block.block_idx(), Order::kRelaxed, Scope::kGpu));
}

// A call that failed on some thread is not counted.
template <class Block, SentBy kSentBy = SentBy::kThis>
STRETTO_KERNEL void end_call(Block& block, Ptr<Block, uint64> state, uint64 call, bool good) {
  if constexpr (kSentBy == SentBy::kBefore) block.wait_for_kernel_before();
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
// several blocks has none: it greets (greeting.h), and whoever waits for it would wait longer. Nor
// have those before it that have something else to do, `others` of them with it.
struct ThreadShare {
  static constexpr uint32 kNone = ~0u;  // no item has this number

  template <class Block>
  STRETTO_PRIMITIVE static ThreadShare of(Block& block, uint32 others = 1) {
    const auto thread = static_cast<uint32>(block.thread_idx());
    const auto threads = static_cast<uint32>(block.num_threads());
    const auto index = static_cast<uint32>(block.block_idx());
    const auto all = static_cast<uint32>(block.num_blocks());
    const auto warp = static_cast<uint32>(block.warp_size());
    const uint32 blocks = all > others ? all - others : 1;
    const uint32 step = blocks * threads;
    if (index >= blocks) return {kNone, step};
    if (threads % warp != 0) return {index * threads + thread, step};
    return {(thread / warp * blocks + index) * warp + thread % warp, step};
  }
  uint32 first;
  uint32 step;
};

}  // namespace stretto::device

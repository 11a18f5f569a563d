// A call of a kernel that all ranks make together and that has three buffers for its data, by call.
//
// Three are enough: call e uses one and clears the one of call e-1, which call e+2 will use; by the
// greetings of call e+1 (greeting.h) a rank in call e+2 knows that all have ended call e.
//
// The grid must be the same in every call. `state`, local and zero at first, holds two words a
// block: calls so far, and the size of the last call.
#pragma once

#include "stretto/device/lang/words.h"

namespace stretto::device {

// What one thread does of a call: of items in a row first, first + step, ...
struct CallShare {
  uint64 call;
  uint64 last_size;  // of the call before
  uint64 first;
  uint64 step;
  uint64 now;     // which of the three buffers this call uses
  uint64 before;  // and the call before used
};

template <class Block>
STRETTO_KERNEL CallShare begin_call(Block& block, Ptr<Block, uint64> state) {
  const uint64 call = state[2 * block.block_idx()];
  const uint64 last_size = state[2 * block.block_idx() + 1];
  const auto threads = static_cast<uint64>(block.num_threads());
  return {
      call,
      last_size,
      static_cast<uint64>(block.block_idx()) * threads + static_cast<uint64>(block.thread_idx()),
      static_cast<uint64>(block.num_blocks()) * threads,
      call % 3,
      (call + 2) % 3};
}

// `size` is what the next call finds as last_size. A call that failed on some thread is not
// counted.
template <class Block>
STRETTO_KERNEL void end_call(Block& block, Ptr<Block, uint64> state, uint64 call, uint64 size,
                             bool good) {
  if (block.sync_or(!good) || block.thread_idx() != 0) return;
  state[2 * block.block_idx()] = call + 1;
  state[2 * block.block_idx() + 1] = size;
}

}  // namespace stretto::device

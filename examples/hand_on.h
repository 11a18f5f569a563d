// A kernel of one's own, for the emulator and for GPUs: each rank hands its values to the next one,
// and adds up what it gets.
#pragma once

#include "stretto/device/lang/shmem.h"

namespace hand_on_example {

using namespace stretto::device;

template <class Block>
struct HandOnArgs {
  Ptr<Block, const float> values;  // local: count
  Ptr<Block, float> inbox;         // symmetric: count
  Ptr<Block, uint64> arrived;      // symmetric, 0 at first
  Ptr<Block, float> sum;           // local
  uint32 count;
  uint64 call;  // how many there were before
};

template <class Block>
STRETTO_KERNEL void hand_on(Block& block, const HandOnArgs<Block>& args) {
  Shmem shmem(block);
  const int next = (shmem.my_pe() + 1) % shmem.n_pes();
  shmem.putmem_signal_block(args.inbox, args.values, args.count * sizeof(float), args.arrived, 1,
                            SignalOp::kAdd, next);
  // Every wait has a deadline. When it has passed, the data is not there, and the kernel leaves.
  if (!shmem.signal_wait_until_block(args.arrived, Compare::kGe, args.call + 1)) return;
  if (block.thread_idx() == 0) {
    float sum = 0;
    for (uint32 i = 0; i < args.count; ++i) sum += args.inbox[i];
    args.sum[0] = sum;
  }
  // The inbox is free for the next call when all have read theirs.
  shmem.barrier_all_block();
}

}  // namespace hand_on_example

// What a rank's stream does between its copies: it raises a signal at a peer, and waits for one.
#pragma once

#include "stretto/device/lang/shmem.h"

namespace stretto::device {

template <class Block>
struct RankNotifyArgs {
  Ptr<Block, uint64> signal;  // symmetric
  uint64 amount;
  int peer;
};

template <class Block>
STRETTO_KERNEL void rank_notify(Block& block, const RankNotifyArgs<Block>& args) {
  if (block.thread_idx() != 0) return;
  Shmem<Block>(block).signal_op(args.signal, args.amount, SignalOp::kAdd, args.peer);
}

template <class Block>
struct RankWaitArgs {
  Ptr<Block, uint64> signal;  // symmetric, the own
  uint64 bound;
  int from;  // who raises it, for the report; -1: any
};

template <class Block>
STRETTO_KERNEL void rank_wait(Block& block, const RankWaitArgs<Block>& args) {
  if (block.thread_idx() != 0) return;
  (void)block.wait_until(args.signal, Compare::kGe, args.bound, Where::here(), args.from);
}

}  // namespace stretto::device

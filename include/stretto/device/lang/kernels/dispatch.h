// Sends tokens to the ranks that own their experts, and lists them there by expert.
//
// No host takes part: counts travel ahead of the data, and call numbers live on the device, so a
// graph can be replayed. Slots alternate between calls; experts.h says why that is enough.
//
// Launch the same grid on every rank and in every call, all blocks resident, with
// dispatch_shared_bytes() of shared memory and whole warps. Ids of -1 are dropped entries. Ids out
// of range are dropped too, and counted; so are tokens over max_tokens, and rows over max_rows,
// which their expert does not get and is not told of.
#pragma once

#include "stretto/device/lang/kernels/dispatch_send.h"
#include "stretto/device/lang/kernels/dispatch_take.h"

namespace stretto::device {

template <class Block>
STRETTO_KERNEL void dispatch(Block& block, const DispatchArgs<Block>& args) {
  const Units units = Units::of(args.shape, static_cast<uint32>(block.num_blocks()),
                                static_cast<uint32>(block.block_idx()));
  const uint64 calls = args.calls[block.block_idx()];
  if (!BlockCalls::same_grid(block, calls)) return;
  if (units.sends()) DispatchSend<Block>(block, args).run();
  if (units.takes() && !DispatchTake<Block>(block, args).run()) return;
  block.sync();
  if (block.thread_idx() == 0) {
    args.calls[block.block_idx()] =
        BlockCalls::pack(BlockCalls::of(calls) + 1, static_cast<uint32>(block.num_blocks()));
  }
}

}  // namespace stretto::device

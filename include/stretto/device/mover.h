// Movers: blocks that copy and reduce regions, driven by a task table (mover_task.h).
//
//   wait warp     awaits the signals of task after task, ahead of the loads
//   load warps    bring the sources, 16 KB at a time, into a ring of stages by TMA, in turn
//   add groups    of 8 warps sum the stages of reductions in fp32 and store to every destination;
//                 they take pieces in turn
//   store warps   send the stages of copies to every destination by TMA, in turn
//   notify warp   makes the notifies of task after task, behind all others
//
// Nothing separates one task from the next: loads run ahead by the whole ring, and a release drains
// while later tasks move.
#pragma once

#include "stretto/device/mover_add.h"
#include "stretto/device/mover_copy.h"

namespace stretto::device {

#ifdef STRETTO_DEVICE

// By one warp, ahead of all others.
STRETTO_DEVICE void await_tasks(const MoverBlock& block) {
  const MoverParams& params = block.params;
  for (uint32 t = block.begin; t < block.end; ++t) {
    const MoverTask& task = params.tasks[t];
    if (task.num_waits != 0) {
      wait_signals(params.signals, block.epoch, params.waits + task.first_wait, task.num_waits,
                   kMoverLane | blockIdx.x, task.tile);
    }
    if (threadIdx.x % 32 == 0) store_release_shared(block.shared.ready, t - block.begin + 1);
  }
}

// By one warp, behind all others.
STRETTO_DEVICE void notify_tasks(const MoverBlock& block) {
  const MoverShared& shared = block.shared;
  const uint32 lane = threadIdx.x % 32;
  uint32 passed = 0;
  for (TaskWalk walk(block, true); !walk.done(); walk.advance()) {
    const MoverTask& task = walk.task();
    ++passed;
    await_count(shared.ready, passed);
    await_count(shared.added, passed * kAddWarps);
    for (uint32 w = 0; w < kStoreWarps; ++w) await_count(shared.stored + w * 4, passed);
    __syncwarp();
    for (uint32 n = lane; n < task.num_notifies; n += 32) {
      notify_signal(block.params.signals, block.epoch,
                    block.params.notifies[task.first_notify + n]);
    }
    __syncwarp();
    if (lane == 0) store_release_shared(shared.completed, passed);
  }
}

STRETTO_DEVICE void run_mover(const MoverParams& params) {
  extern __shared__ uint8 shared_memory[];
  const uint32 warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0);
  const MoverBlock block{params,
                         MoverShared(shared_address(shared_memory)),
                         read_rows(params.rows),
                         params.signals.control->epoch,
                         params.first_task[blockIdx.x],
                         params.first_task[blockIdx.x + 1]};
  if (threadIdx.x == 0) block.shared.init();
  __syncthreads();
  if (warp < kAddWarps) {
    add_tasks(block, warp / kGroupWarps);
  } else if (warp < kAddWarps + kLoadWarps) {
    load_tasks(block, warp - kAddWarps);
  } else if (warp < kAddWarps + kLoadWarps + kStoreWarps) {
    store_tasks(block, warp - kAddWarps - kLoadWarps);
  } else if (warp == kAddWarps + kLoadWarps + kStoreWarps) {
    await_tasks(block);
  } else {
    notify_tasks(block);
  }
}

#endif  // STRETTO_DEVICE

}  // namespace stretto::device

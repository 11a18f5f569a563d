// Movers: blocks that copy and reduce regions, driven by a task table (mover_task.h).
//
//   wait warp     awaits the signals of task after task, ahead of the loads
//   load warps    bring the sources, 16 KB at a time, into a ring of stages by TMA, in turn
//   add groups    of 8 warps sum the stages of reductions in fp32 and store to every destination;
//                 they take pieces in turn, but for rows to norm, which they share
//   store warps   send the stages of copies to every destination by TMA, in turn
//   notify warp   makes the notifies of task after task, behind all others
//
// Nothing separates one task from the next: loads run ahead by the whole ring, and a release drains
// while later tasks move.
#pragma once

#include "stretto/device/launch_order.h"
#include "stretto/device/mover_add.h"
#include "stretto/device/mover_copy.h"

namespace stretto::device {

#ifdef STRETTO_DEVICE

// One warp calls it, ahead of all others.
STRETTO_DEVICE void await_tasks(const MoverBlock& block) {
  const MoverParams& params = block.params;
  for (uint32 t = block.begin; t < block.end; ++t) {
    const MoverTask& task = params.tasks[t];
    if (task.num_waits != 0) {
      wait_signals(params.signals, block.epoch, params.waits + task.first_wait, task.num_waits,
                   kMoverLane | block.index, task.tile);
      if (threadIdx.x % 32 == 0) mark(params.marks, t, Mark::ready);
    }
    if (threadIdx.x % 32 == 0) store_release_shared(block.shared.ready, t - block.begin + 1);
  }
}

// One warp calls it, behind all others. A release takes as long as what its SM has under way: one
// fence serves all tasks that are past by then.
template <bool kAdds>
STRETTO_DEVICE void notify_tasks(const MoverBlock& block) {
  constexpr uint32 kWords = (kAdds ? kAddWarps : 0) + kStoreWarps + 1;
  static_assert(kWords <= 32);
  const MoverParams& params = block.params;
  const uint32 lane = threadIdx.x % 32, count = block.end - block.begin;
  const uint32 word =
      (kAdds ? block.shared.added : block.shared.stored) + (lane < kWords ? lane : 0) * 4;
  // What the next notify needs is fetched before the fence, which empties the SM's cache.
  uint32 first = 0, number = 0;
  NotifyEntry entry{};
  const auto fetch = [&](uint32 t) {
    if (t == count) return;
    const MoverTask& task = params.tasks[block.begin + t];
    first = task.first_notify;
    number = task.num_notifies;
    if (lane < number) entry = params.notifies[first + lane];
  };
  fetch(0);
  for (uint32 passed = 0; passed < count;) {
    const uint32 past = __reduce_min_sync(0xffffffffu, load_acquire_shared(word));
    if (past == passed) continue;
    // The other lanes' acquires come before each lane's fence.
    __syncwarp();
    for (uint32 t = passed + lane; t < past; t += 32) {
      mark(params.marks, block.begin + t, Mark::finished);
    }
    fence_acq_rel_sys();
    for (; passed < past; fetch(++passed)) {
      if (lane < number) notify_behind_fence(params.signals, block.epoch, entry);
      for (uint32 n = lane + 32; n < number; n += 32) {
        notify_behind_fence(params.signals, block.epoch, params.notifies[first + n]);
      }
      if (lane == 0) mark(params.marks, block.begin + passed, Mark::done);
    }
    __syncwarp();
    if (lane == 0) store_release_shared(block.shared.completed, passed);
  }
}

// The tables stay as they are, so this may be while the kernel before still runs.
STRETTO_DEVICE void prefetch_first_task(const MoverParams& params, uint32 begin, uint32 end) {
  if (begin == end || threadIdx.x >= params.region_sets) return;
  const MoverTask& task = params.tasks[begin];
  prefetch_line(&task);
  prefetch_line(params.waits + task.first_wait);
  prefetch_line(params.regions + threadIdx.x * params.num_regions + task.first_region);
}

// Block `index` of the movers, by its first mover_threads(kAdds) threads. Without warps that add
// all tasks are copies of whole vectors; where kNorms is not, none norms, maps or restores, and
// where kRoutes is not, none has routed rows.
template <bool kAdds, bool kNorms = false, bool kRoutes = false>
STRETTO_DEVICE void run_mover(const MoverParams& params, uint32 index) {
  extern __shared__ uint8 shared_memory[];
  const uint32 warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0);
  const MoverShared shared(shared_address(shared_memory));
  const uint32 begin = params.first_task[index], end = params.first_task[index + 1];
  if (threadIdx.x == 0) shared.init();
  prefetch_first_task(params, begin, end);
  wait_for_stream();
  const RunRows run = read_rows(params.rows);
  if (threadIdx.x == 0) {
    const uint64 epoch = read_epoch(params.signals, index);
    store_shared(shared.epoch, epoch);
    count_run(params.signals, index, epoch);
    mark_begin(params.marks, index);
  }
  __syncthreads();
  const MoverBlock block{params, shared, run, load_shared(shared.epoch), index, begin, end};
  constexpr uint32 kLoad = kAdds ? kAddWarps : 0, kStore = kLoad + kLoadWarps;
  constexpr uint32 kAwait = kStore + kStoreWarps, kNotify = kAwait + 1;
  if (warp < kLoad) {
    if constexpr (kRoutes) {
      add_routed_tasks<kNorms>(block);
    } else {
      add_tasks<kNorms>(block, warp / kGroupWarps);
    }
  } else if (warp < kStore) {
    load_tasks<kAdds, kNorms>(block, warp - kLoad);
  } else if (warp < kAwait) {
    store_tasks<kAdds, kNorms>(block, warp - kStore);
  } else if (warp == kAwait) {
    await_tasks(block);
  } else if (warp == kNotify) {
    notify_tasks<kAdds>(block);
  }
}

#endif  // STRETTO_DEVICE

}  // namespace stretto::device

// Passes: a mover's tasks that notify nobody, as small blocks that go from memory to registers and
// back. A mover's block has an SM to itself and a ring that tasks pass through, which pays where it
// pushes beside tiles; between two kernels of a stream it takes 9 us to begin and end.
//
// Block b does slice b % slices of the tasks that a mover's block b / slices would do, and awaits
// what they do. Nobody awaits a pass, so its blocks need not be on the GPU together. Sums of routed
// rows are not cut: what a row has of terms is looked up once for all of its columns. Rows that are
// put in order may be one task, of which every block has a slice.
#pragma once

#include "stretto/device/launch_order.h"
#include "stretto/device/mover_add.h"
#include "stretto/device/pass_elements.h"
#include "stretto/device/pass_routed.h"

namespace stretto::device {

inline constexpr uint32 kPassRegions = 32;  // of a task, at most

struct PassParams {
  MoverParams mover;
  // Task b is block b's only one, and has so many regions, from the b-th such group on; of routed
  // rows it is the b-th. 0: it need not be so.
  uint32 regions_of_task;
  // Of each task; 0: all blocks have slices of the only list, of rows that are moved.
  uint32 slices;
  uint32 awaits;  // 1: some task awaits
};

#ifdef STRETTO_DEVICE

// A task and its regions, of both sets, in shared memory: in registers they would take a third of
// what a thread has.
struct PassTask {
  MoverTask task;
  RoutedTask routed;
  MoverRegion regions[2][kPassRegions];
};

// One of so many threads brings one word.
template <typename Entry>
STRETTO_DEVICE void bring_word(const Entry* from, Entry& to, uint32 word) {
  if (word >= sizeof(Entry) / 4) return;
  reinterpret_cast<uint32*>(&to)[word] = reinterpret_cast<const uint32*>(from)[word];
}

// By all threads. Every look at a table takes as long as a small pass: where a task says where
// nothing is that is not known, all comes at once. Tables stay as they are, so the kernel before
// may still run.
template <bool kRoutes>
STRETTO_DEVICE void bring_task(const PassParams& params, uint32 at, PassTask& brought) {
  const MoverParams& mover = params.mover;
  const MoverTask& task = brought.task;
  const bool is_known = params.regions_of_task != 0;
  const uint32 word = threadIdx.x % 32, warp = threadIdx.x / 32;
  if (warp == 1) bring_word(mover.tasks + at, brought.task, word);
  if (!is_known) __syncthreads();
  if (kRoutes && warp == 2) {
    bring_word(mover.routed + (is_known ? at : task.routed - 1), brought.routed, word);
  }
  const uint32 first = is_known ? at * params.regions_of_task : task.first_region;
  const uint32 count =
      is_known ? params.regions_of_task
               : task.num_sources + task.num_destinations + (task.num_normed != 0 ? 1u : 0u);
  if (threadIdx.x < count) {
    const uint32 other = mover.region_sets > 1 ? mover.num_regions : 0;
    const MoverRegion of_first = mover.regions[first + threadIdx.x];
    const MoverRegion of_second = mover.regions[other + first + threadIdx.x];
    brought.regions[0][threadIdx.x] = of_first;
    brought.regions[1][threadIdx.x] = of_second;
  }
  __syncthreads();
}

// By all threads: what the task is in this run, with its regions as the first set.
STRETTO_DEVICE void take_run(PassTask& brought, const RunRows& run, uint32 set) {
  if (set != 0 && threadIdx.x < kPassRegions) {
    brought.regions[0][threadIdx.x] = brought.regions[1][threadIdx.x];
  }
  if (run.block != 0 && threadIdx.x == kPassRegions) leave_out_rows(brought.task, run);
  if (set != 0 || run.block != 0) __syncthreads();
}

// By all threads.
STRETTO_DEVICE void await_task(const MoverParams& mover, const MoverTask& task, uint64 epoch,
                               uint32 block, uint32 at) {
  if (task.num_waits == 0) return;
  if (threadIdx.x / 32 == 0) {
    wait_signals(mover.signals, epoch, mover.waits + task.first_wait, task.num_waits,
                 kMoverLane | block, task.tile);
  }
  __syncthreads();
  if (threadIdx.x == 0) mark(mover.marks, at, Mark::ready);
}

// kRoutes: all tasks are sums of routed rows; else none is. Regions have one set or two.
template <bool kRoutes>
STRETTO_DEVICE void run_pass(const PassParams& params) {
  __shared__ PassTask brought;
  const MoverParams& mover = params.mover;
  const uint32 slices = params.slices != 0 ? params.slices : gridDim.x;
  const Slice slice{blockIdx.x % slices, slices};
  const uint32 block = blockIdx.x / slices;
  uint32 at = block, end = block + 1;
  if (params.regions_of_task == 0) at = mover.first_task[block], end = mover.first_task[block + 1];
  RunRows run;
  uint64 epoch = 0;
#pragma unroll 1
  for (const uint32 begin = at;; ++at) {
    if (at < end) {
      if (at != begin) __syncthreads();  // the task before is done with
      bring_task<kRoutes>(params, at, brought);
    }
    if (at == begin) {
      wait_for_stream();
      run = read_rows(mover.rows);
      // Of one set of regions nobody waits for the run's number.
      if (mover.region_sets > 1 || params.awaits != 0) {
        epoch = read_epoch(mover.signals, blockIdx.x);
      }
      if (threadIdx.x == 0) mark_begin(mover.marks, block);
    }
    if (at >= end) break;
    take_run(brought, run, static_cast<uint32>(epoch) & (mover.region_sets - 1));
    const MoverTask& task = brought.task;
    const MoverRegion* const regions = brought.regions[0];
    await_task(mover, task, epoch, block, at);
    if constexpr (kRoutes) {
      __shared__ NamedRows named;
      PassRouted(RoutedTables::of(task, brought.routed, regions), named).run(slice);
    } else if (task.from == MoverType::fp32) {
      pass_task<true>(task, regions, slice);
    } else {
      pass_task<false>(task, regions, slice);
    }
    if (threadIdx.x == 0) mark(mover.marks, at, Mark::done);
  }
  __syncthreads();  // all have read the run's number
  if (threadIdx.x == 0) count_one_run(mover.signals, blockIdx.x);
}

#endif  // STRETTO_DEVICE

}  // namespace stretto::device

// Passes: a mover's tasks that await and notify nobody, as many small blocks that go from memory to
// registers and back. A mover's block has an SM to itself and a ring that tasks pass through, which
// pays where it waits and pushes beside tiles; between two kernels of a stream it takes 9 us to
// begin and end.
//
// Block b does slice b % kPassSlices of the tasks that a mover's block b / kPassSlices would do.
#pragma once

#include "stretto/device/launch_order.h"
#include "stretto/device/mover_add.h"
#include "stretto/device/pass_elements.h"

namespace stretto::device {

inline constexpr uint32 kPassSlices = 4;
inline constexpr uint32 kPassRegions = 32;  // of a task, at most

struct PassParams {
  MoverParams mover;
  // Task b is block b's only one, and has so many regions, from the b-th such group on; of routed
  // rows it is the b-th. 0: it need not be so.
  uint32 regions_of_task, reserved;
};

#ifdef STRETTO_DEVICE

// A task and its regions in shared memory: in registers they would take a third of what a thread
// has.
struct PassTask {
  MoverTask task;
  RoutedTask routed;
  MoverRegion regions[kPassRegions];
};

// By all threads. Every look at a table takes as long as a small pass: where a task says where
// nothing is that is not known, all comes at once.
template <bool kRoutes>
STRETTO_DEVICE void bring_task(const PassParams& params, uint32 at, uint64 epoch,
                               const RunRows& run, PassTask& brought) {
  const MoverParams& mover = params.mover;
  MoverTask& task = brought.task;
  const auto bring = [&](uint32 routed) {
    task = mover.tasks[at];
    if (kRoutes) brought.routed = mover.routed[routed != ~0u ? routed : task.routed - 1];
  };
  uint32 first = at * params.regions_of_task, count = params.regions_of_task;
  if (count != 0) {
    if (threadIdx.x == kPassRegions) bring(at);
  } else {
    if (threadIdx.x == kPassRegions) bring(~0u);
    __syncthreads();
    first = task.first_region;
    count = task.num_sources + task.num_destinations + (task.num_normed != 0 ? 1u : 0u);
  }
  if (threadIdx.x < count) {
    const MoverRegion own = mover.regions[first + threadIdx.x];
    const uint32 other = mover.region_sets > 1 ? mover.num_regions : 0;
    const MoverRegion others = mover.regions[other + first + threadIdx.x];
    brought.regions[threadIdx.x] = epoch % mover.region_sets == 0 ? own : others;
  }
  __syncthreads();
  if (run.block == 0) return;
  if (threadIdx.x == 0) leave_out_rows(task, run);
  __syncthreads();
}

STRETTO_DEVICE void sum_slice(const PassTask& of, Slice slice) {
  const uint32 rows = of.task.rows, each = (rows + slice.count - 1) / slice.count;
  const uint32 first = slice.index * each, end = first + each < rows ? first + each : rows;
  if (first >= end) return;
  RoutedSums<false>(RoutedTables::of(of.task, of.routed, of.regions)).run(first, end);
}

// kRoutes: all tasks are sums of routed rows; else none is. Regions have one set or two.
template <bool kRoutes>
STRETTO_DEVICE void run_pass(const PassParams& params) {
  __shared__ PassTask brought;
  const MoverParams& mover = params.mover;
  const uint32 block = blockIdx.x / kPassSlices;
  const Slice slice{blockIdx.x % kPassSlices, kPassSlices};
  uint32 at = block, end = block + 1;
  if (params.regions_of_task == 0) at = mover.first_task[block], end = mover.first_task[block + 1];
  wait_for_stream();
  const RunRows run = read_rows(mover.rows);
  const uint64 epoch = read_epoch(mover.signals, blockIdx.x);
  if (threadIdx.x == 0) mark_begin(mover.marks, block);
#pragma unroll 1
  for (const uint32 begin = at; at < end; ++at) {
    if (at != begin) __syncthreads();  // the task before is done with
    bring_task<kRoutes>(params, at, epoch, run, brought);
    if constexpr (kRoutes) {
      sum_slice(brought, slice);
    } else if (brought.task.from == MoverType::fp32) {
      pass_task<true>(brought.task, brought.regions, slice);
    } else {
      pass_task<false>(brought.task, brought.regions, slice);
    }
    if (threadIdx.x == 0) mark(mover.marks, at, Mark::done);
  }
  __syncthreads();  // all have read the run's number
  if (threadIdx.x == 0) count_run(mover.signals, blockIdx.x, epoch);
}

#endif  // STRETTO_DEVICE

}  // namespace stretto::device

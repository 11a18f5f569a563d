// The kernel of partitions: each is a cluster's, of one block or a few. It does the tasks of a
// mover's block where these are all partitions, and await and notify nobody: a mover would take
// longer to begin and end than most of them take to make.
#pragma once

#include "stretto/device/partition_by_blocks.h"
#include "stretto/device/pass.h"
#include "stretto/device/warp_worker.h"
#ifdef STRETTO_DEVICE
#include "stretto/device/ptx_barrier.h"
#endif

namespace stretto::device {

#ifdef STRETTO_DEVICE

// A cluster's warps, as make_partition_by_blocks() asks for them.
struct ClusterTeam {
  int32 block, blocks, warp, warps;

  STRETTO_DEVICE static ClusterTeam here() {
    return {static_cast<int32>(cluster_rank()), static_cast<int32>(cluster_blocks()),
            static_cast<int32>(threadIdx.x / 32), static_cast<int32>(blockDim.x / 32)};
  }
  STRETTO_DEVICE void meet() const { __syncthreads(); }
  STRETTO_DEVICE void meet_all() const {
    if (blocks == 1) return __syncthreads();
    cluster_sync_shared();
  }
  STRETTO_DEVICE void part() const {
    if (blocks != 1) cluster_arrive();
  }
  // No block ends, or begins anew, while others read its memory.
  STRETTO_DEVICE void end() const {
    if (blocks == 1) return __syncthreads();
    cluster_await();
  }
  STRETTO_DEVICE const int32* at(int32 of_block, const int32* totals, int32 column) const {
    const int32* const word = totals + column;
    return blocks == 1 ? word : generic_in_cluster(static_cast<uint32>(of_block), word);
  }
};

STRETTO_DEVICE void run_partitions(const PassParams& params) {
  extern __shared__ int32 partition_memory[];
  __shared__ PassTask brought;
  const MoverParams& mover = params.mover;
  const ClusterTeam team = ClusterTeam::here();
  const uint32 index = blockIdx.x / static_cast<uint32>(team.blocks);
  uint32 at = index, end = index + 1;
  if (params.regions_of_task == 0) at = mover.first_task[index], end = mover.first_task[index + 1];
  const bool tells = team.block == 0 && threadIdx.x == 0;
  uint64 epoch = 0;
#pragma unroll 1
  for (const uint32 begin = at; at < end; ++at) {
    bring_task<true>(params, at, brought);
    if (at == begin) {
      wait_for_stream();
      epoch = read_epoch(mover.signals, blockIdx.x);
      if (tells) mark_begin(mover.marks, index);
    }
    const uint32 set = static_cast<uint32>(epoch) & (mover.region_sets - 1);
    const RoutedTables tables =
        RoutedTables::of(brought.task, brought.routed, brought.regions[set]);
    make_partition_by_blocks<WarpWorker>(
        tables.choices(), tables.partition(), partition_memory, team, [&](int32 bad_ids) {
          if (bad_ids != 0 && mover.bad_ids != nullptr) {
            add_relaxed_sys(mover.bad_ids, static_cast<uint32>(bad_ids));
          }
        });
    if (tells) mark(mover.marks, at, Mark::done);
  }
  __syncthreads();  // all have read the run's number
  if (threadIdx.x == 0) count_run(mover.signals, blockIdx.x, epoch);
}

#endif  // STRETTO_DEVICE

}  // namespace stretto::device

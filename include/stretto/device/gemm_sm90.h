// The GEMM kernel of Hopper: persistent, warp-specialised, driven by a task table (gemm_task.h).
//
//   wait warp    awaits the signals of task after task; with phases, those of one block of K
//                after another; behind them what the run awaits before the kernel may end
//   load warp    feeds stages of A and B by TMA (multicast in pairs) once their signals have come,
//                and behind a tile's last ones those of what other ranks sent to it
//   consumers    warpgroups; multiply stages with wgmma, add to a finished tile what other ranks
//                sent where its task says so, and hand it over in chunks; of a tile whose K is
//                split, they leave a range's sums in memory, or add the other ranges' first;
//                behind their last tile they norm rows, where the kernel does (gemm_rows.h)
//   gather warp  where rows of A are found by index: copies them into the stages
//   store warp   sends chunks to every destination by TMA, or row by row to where a table says,
//                then makes the task's notifies
//
// The load warp runs ahead into the next task while consumers finish one. With overlap_store a
// consumer whose next stage is ready keeps a finished tile rounded in registers and hands it over
// behind the multiplications of its next task, a chunk whenever there is room for one, so the
// tensor cores do not pause for it, nor for a link that takes it slowly. Where the next task goes
// on with the tile, or there is none, it hands it over at once.
#pragma once

#include "stretto/device/gemm_load.h"
#include "stretto/device/gemm_multiply.h"
#include "stretto/device/gemm_rows.h"
#include "stretto/device/gemm_scatter.h"
#include "stretto/device/gemm_store.h"
#include "stretto/device/launch_order.h"
#include "stretto/device/ptx_elect.h"

namespace stretto::device {

// One warp calls it, ahead of a barrier of the block. Maps are copied by the host to memory
// where those of a plan that has ended may have been, which the SM may still hold: PTX asks for a
// fence behind the copy. That takes 1 to 2 us, so only the first block on each SM makes it: the
// others come behind it in the stream's order.
STRETTO_DEVICE void acquire_maps(const GemmParams& params, uint32 lane) {
  const uint32 sm = sm_index();
  volatile uint32* const acquired = sm < kMostSms ? params.acquired + sm : nullptr;
  const bool is_first = acquired == nullptr || *acquired == 0;
  if (is_first) {
    const uint32 count = params.num_maps * params.map_sets;
#pragma unroll 1
    for (uint32 m = lane; m < count; m += 32) acquire_tensor_map(params.maps + m);
  }
  __syncwarp();  // of all lanes: another block may write the word while they read it
  if (is_first && acquired != nullptr && lane == 0) *acquired = 1;
  if (lane < params.num_maps) prefetch_tensor_map(params.maps + lane);
}

// Block `index` of those that multiply. `rows`: where it norms, what it does behind its tiles.
template <GemmConfig kConfig>
STRETTO_DEVICE void gemm_sm90(const GemmParams& params, uint32 index,
                              const MoverParams* rows = nullptr) {
  extern __shared__ uint8 shared_memory[];
  constexpr GemmLayout kLayout = layout_of(kConfig);
  constexpr RegisterBudget kRegisters = registers_of(kConfig);
  // Who takes registers waits until the block has as many: of those that it was launched with.
  static_assert(kConfig.consumers * kRegisters.consumer + kRegisters.mover <=
                (kConfig.consumers + 1) * (65536 / kLayout.threads / 8 * 8));
  const GemmShared<kConfig> shared(shared_address(shared_memory));
  const uint32 warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0);
  const uint32 lane = threadIdx.x % 32;
  const bool moves = warp >= static_cast<uint32>(kConfig.consumers) * 4;
  const bool elected = is_elected();
  const bool loads = moves && warp % 4 == 0 && elected;
  const bool stores = moves && warp % 4 == 1 && elected;

  // What the first load needs is fetched while the barriers are being made, and the kernel before
  // may still run: tables stay as they are.
  if (moves && warp % 4 == 2) acquire_maps(params, lane);
  const uint32 begin = params.first_task[index];
  const uint32 end = params.first_task[index + 1];
  GemmTask first{};
  if (loads && begin < end) first = params.tasks[begin];

  if (threadIdx.x == 0) shared.init_barriers();
  wait_for_stream();
  if (threadIdx.x == 0) {
    const uint64 epoch = read_epoch(params.signals, index);
    store_shared(shared.epoch, epoch);
    count_run(params.signals, index, epoch);
    mark_begin(params.marks, index);
    if constexpr (kConfig.norms) {
      count_run(rows->signals, index, epoch);
      mark_begin(rows->marks, index);
    }
  }
  if constexpr (kLayout.cluster > 1) cluster_sync();
  __syncthreads();

  if (moves) {
    give_registers<kRegisters.mover>();
    if (begin < end && loads) gemm_load<kConfig>(params, shared, first, begin, end);
    if constexpr (kConfig.scatters) {
      if (warp % 4 == 1) gemm_scatter<kConfig>(params, shared, begin, end);
    } else {
      if (begin < end && stores) gemm_store<kConfig>(params, shared, begin, end);
    }
    if (warp % 4 == 2) {
      if (begin < end) gemm_wait<kConfig>(params, shared, index, begin, end);
      if constexpr (kConfig.norms) await_rows<kConfig>(*rows, shared, index, begin < end);
      gemm_wait_at_end<kConfig>(params, shared, index);
    }
    if constexpr (kConfig.gathers) {
      if (warp % 4 == 3) gemm_gather<kConfig>(params, shared, begin, end);
    }
    __syncwarp();
  } else {
    take_registers<kRegisters.consumer>();
    if (begin < end) {
      gemm_multiply<kConfig>(params, shared, warp / 4, begin, end);
      // Here and not behind the tiles that there may be: else the compiler takes consumers for
      // warps that have no more registers than they were launched with, and spills.
      if constexpr (kConfig.norms) gemm_rows<kConfig>(*rows, shared, warp / 4, index);
    }
  }
  // A block's shared memory must outlive the arrivals and multicasts of its partner.
  if constexpr (kLayout.cluster > 1) cluster_sync();
}

}  // namespace stretto::device

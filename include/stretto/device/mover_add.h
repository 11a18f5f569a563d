// The add warps of a mover: tasks that reduce, convert, or are too odd for vectors.
#pragma once

#include "stretto/device/mover_norm.h"
#include "stretto/device/mover_routed.h"
#include "stretto/device/mover_router.h"

namespace stretto::device {

#ifdef STRETTO_DEVICE

// By the warps of one add group: the sums of its pieces of a task, stored to every destination.
// `turn` counts pieces.
template <MoverType kFrom, bool kMaps>
STRETTO_DEVICE void add_task(const MoverShared& shared, const TaskWalk& walk, uint32 group,
                             uint32& turn, uint32& stage) {
  constexpr uint32 kEights = kEightsOf<kFrom, kGroupWarps>;
  const MoverTask& task = walk.task();
  const MoverPieces pieces(task);
  const uint32 thread = threadIdx.x % (kGroupWarps * 32);
  const uint32 to_size = bytes_of(task.to);
  uint32 across = 0;       // that `places` are for
  uint32 places[kEights];  // row, and bytes into it in the low half
  MoverPiece piece(task, pieces);
  for (uint32 p = 0; p < pieces.count; ++p, piece.advance(task, pieces)) {
    if (turn++ % kAddGroups != group) {
      stage += stages_of<kMaps>(walk);
      continue;
    }
    if (across != piece.columns / 8) {
      across = piece.columns / 8;
#pragma unroll
      for (uint32 i = 0; i < kEights; ++i) {
        const uint32 at = thread + i * kGroupWarps * 32;
        places[i] = at / across << 16 | at % across * (8 * to_size);
      }
    }

    float sums[kEights * 8] = {};
    const uint32 stages = stages_of<kMaps>(walk);
    for (uint32 s = 0; s < stages; ++s, ++stage) {
      const uint32 slot = slot_of(stage);
      await_begun(shared, stage);
      barrier_wait(shared.full + slot * 8, parity_of(stage));
      const uint32 at = shared.stages + slot * kStageBytes;
      if (kMaps && s != 0 && task.vectors == 2) {
        multiply_stage<kFrom>(at, thread, kGroupWarps * 32, sums);
      } else {
        add_stage<kFrom>(at, thread, kGroupWarps * 32, sums);
      }
      __syncwarp();
      if (threadIdx.x % 32 == 0) barrier_arrive_many(shared.empty + slot * 8, kAddGroups);
    }

    if (kMaps && task.vectors == 2) {
#pragma unroll
      for (uint32 i = 0; i < kEights; ++i) {
        map_eight(walk.entry().map, sums + 8 * i);
      }
    }
    EightRounded rounded[kEights];
#pragma unroll
    for (uint32 i = 0; i < kEights; ++i) rounded[i] = round_eight(task.to, sums + 8 * i);
    store_to_each<kEights>(
        task.num_destinations, [&](uint32 d) { return walk.region(d); },
        [&](const MoverRegion& to, uint32 i) {
          if (places[i] >> 16 >= piece.rows) return;
          const uint64 first = piece.address_in(to, task.to);
          const uint64 address = first + (places[i] >> 16) * to.row_bytes + (places[i] & 0xffff);
          store_vector(address, rounded[i].low);
          if (task.to == MoverType::fp32) store_vector(address + 16, rounded[i].high);
        });
  }
}

// By all add warps, without the ring: any width and alignment of elements. `entry` is the task as
// it stands in memory.
template <bool kMaps>
STRETTO_DEVICE void move_elements(const MoverTask& task, const MoverTask& entry,
                                  const MoverRegion* regions) {
  for (uint32 at = threadIdx.x; at < task.rows * task.columns; at += kAddWarps * 32) {
    const uint32 row = at / task.columns, column = at % task.columns;
    const bool maps = kMaps && entry.map != MoverMap::none;
    if (!maps && task.num_sources == 1 && task.from == task.to) {
      // Bits, which may be of whole numbers.
      const uint64 from = address_in(regions[0], row, column, task.from);
      for (uint32 d = 0; d < task.num_destinations; ++d) {
        const uint64 to = address_in(regions[1 + d], row, column, task.to);
        if (task.from == MoverType::fp32) {
          *reinterpret_cast<uint32*>(to) = *reinterpret_cast<const uint32*>(from);
        } else {
          *reinterpret_cast<uint16*>(to) = *reinterpret_cast<const uint16*>(from);
        }
      }
      continue;
    }
    float sum = 0;
    if (maps) {
      sum = map_element(entry, regions, row, column);
    } else {
      for (uint32 s = 0; s < task.num_sources; ++s) {
        sum += element_in(address_in(regions[s], row, column, task.from), task.from);
      }
    }

    for (uint32 d = 0; d < task.num_destinations; ++d) {
      const MoverRegion& to = regions[task.num_sources + d];
      store_element(address_in(to, row, column, task.to), task.to, sum);
    }
  }
}

STRETTO_DEVICE void norm_any(const MoverShared& shared, const TaskWalk& walk, uint32& stage) {
  const MoverType from = walk.task().from;
  if (from == MoverType::bf16) {
    norm_task<MoverType::bf16>(shared, walk, stage);
  } else if (from == MoverType::fp16) {
    norm_task<MoverType::fp16>(shared, walk, stage);
  } else {
    norm_task<MoverType::fp32>(shared, walk, stage);
  }
}

// By an add warp: that it is past so many tasks of its block.
STRETTO_DEVICE void tell_passed(const MoverShared& shared, uint32 passed) {
  __syncwarp();
  if (threadIdx.x % 32 == 0) store_release_shared(shared.added + threadIdx.x / 32 * 4, passed);
}

// By kAddWarps warps.
template <bool kNorms>
STRETTO_DEVICE void add_tasks(const MoverBlock& block, uint32 group) {
  const MoverParams& params = block.params;
  const MoverRegion* regions =
      params.regions + block.epoch % params.region_sets * params.num_regions;
  uint32 stage = 0, turn = 0, passed = 0;
  for (TaskWalk walk(block, true); !walk.done(); walk.advance()) {
    const MoverTask& task = walk.task();
    if (is_copy(task)) {
      stage += MoverPieces(task).count;
    } else if (!task.vectors) {
      await_count(block.shared.ready, passed + 1);
      if (task.drains) await_count(block.shared.completed, passed);
      move_elements<kNorms>(task, walk.entry(), regions + task.first_region);
    } else if (kNorms && task.num_normed != 0) {
      norm_any(block.shared, walk, stage);
    } else if (task.from == MoverType::bf16) {
      add_task<MoverType::bf16, kNorms>(block.shared, walk, group, turn, stage);
    } else if (task.from == MoverType::fp16) {
      add_task<MoverType::fp16, kNorms>(block.shared, walk, group, turn, stage);
    } else {
      add_task<MoverType::fp32, kNorms>(block.shared, walk, group, turn, stage);
    }
    tell_passed(block.shared, ++passed);
  }
}

// The same where some tasks are of routed rows, and sums beside them too. These read tables as they
// go, so that of a task nothing is kept ahead of it: registers are theirs.
template <bool kNorms>
STRETTO_DEVICE void add_routed_tasks(const MoverBlock& block) {
  const MoverParams& params = block.params;
  uint32 stage = 0;
#pragma unroll 1
  for (uint32 t = block.begin; t < block.end; ++t) {
    const MoverTask& task = params.tasks[t];
    const uint32 passed = t - block.begin;
    if (is_copy(task)) {
      if constexpr (kNorms) stage += MoverPieces(task).count;
    } else if (kNorms && task.num_normed != 0) {
      const MoverBlock alone{params, block.shared, block.run, block.epoch, block.index, t, t + 1};
      norm_any(block.shared, TaskWalk(alone, true), stage);
    } else {
      await_count(block.shared.ready, passed + 1);
      if (task.drains) await_count(block.shared.completed, passed);
      const MoverRegion* const regions = params.regions + task.first_region +
                                         block.epoch % params.region_sets * params.num_regions;
      if (task.routed != 0) {
        const RoutedTask& routed = params.routed[task.routed - 1];
        if (is_router(routed.kind)) {
          // Who norms too has no registers to keep scores in.
          route_rows<kNorms ? 0 : 8>(task, routed, regions);
        } else if (is_look_up(routed.kind)) {
          PooledMover(task, routed, regions, params.bad_ids).run();
        } else {
          RoutedMover(task, routed, regions, params.bad_ids).run();
        }
      } else {
        move_elements<false>(task, task, regions);
      }
    }
    tell_passed(block.shared, passed + 1);
  }
}

#endif  // STRETTO_DEVICE

}  // namespace stretto::device

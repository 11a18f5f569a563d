// The warps of the GEMM kernel that await signals and load stages.
#pragma once

#include "stretto/device/gemm_entries.h"
#include "stretto/device/ptx_tma.h"

namespace stretto::device {

// Where a tile of an operand begins.
struct TileStart {
  const TensorMap* map;
  int32 k, row;
};

// An operand's place in a stage, of the block that has this rank in its cluster.
struct StagePlace {
  uint32 at;
  int32 bytes;
  uint32 rank, barrier;
};

// One operand's part of a stage: this block's own tile, or its half for both blocks of the cluster.
template <bool kIsShared>
STRETTO_DEVICE void load_operand(TileStart from, int32 box_rows, StagePlace to) {
  if constexpr (kIsShared) {
    tma_load_multicast(to.at + to.rank * (to.bytes / 2), from.map, from.k,
                       from.row + static_cast<int32>(to.rank) * box_rows, to.barrier, uint16{3});
  } else {
    tma_load(to.at, from.map, from.k, from.row, to.barrier);
  }
}

// The second operand's part where its rows are of two: each block loads both, or the one or the
// other for both blocks.
template <bool kIsShared>
STRETTO_DEVICE void load_halves(TileStart from, TileStart other, StagePlace to) {
  const uint32 half = static_cast<uint32>(to.bytes / 2);
  if constexpr (kIsShared) {
    tma_load_multicast(to.at + to.rank * half, to.rank == 0 ? from.map : other.map, from.k,
                       to.rank == 0 ? from.row : other.row, to.barrier, uint16{3});
  } else {
    tma_load(to.at, from.map, from.k, from.row, to.barrier);
    tma_load(to.at + half, other.map, other.k, other.row, to.barrier);
  }
}

// What others sent to be added to the task's tile, and the residual behind it, chunk by chunk of
// the tile's columns, in stages behind those of its operands. A part of the tile is loaded to where
// a whole one has it.
template <GemmConfig kConfig>
STRETTO_DEVICE void load_sums(const GemmParams& params, const GemmShared<kConfig>& shared,
                              const GemmTask& task, const TensorMap* maps, RingPosition& ring) {
  constexpr GemmLayout kLayout = layout_of(kConfig);
  constexpr int32 kPlaces = kLayout.pieces_in_a + kLayout.pieces_in_b;
  constexpr int32 kPieces = kConfig.tile_n / kLayout.chunk_columns * kConfig.adds;
  constexpr int32 kRowBytes = kLayout.piece_bytes / kConfig.tile_m;
  constexpr bool kWhole = !kGoesOn<kConfig>;
  const int32 box_rows = kWhole ? kConfig.tile_m : task.sum_box * kChunkRows;
  const int32 begin = kWhole ? 0 : task.sum_begin, end = kWhole ? 1 : task.sum_end;
  const int32 bytes = (end - begin) * box_rows * kRowBytes;
  const TensorMap* const sums = maps + task.sum_map;
  int32 column = task.sum_column;
  uint32 source = 0;  // of those but the tile itself
  for (int32 first = 0; first < kPieces; first += kPlaces) {
    const int32 count = kPieces - first < kPlaces ? kPieces - first : kPlaces;
    const uint32 full = shared.full + ring.slot * 8;
    barrier_wait(shared.empty + ring.slot * 8, ring.parity);
    barrier_arrive_expect(full, count * bytes);
    for (int32 place = 0; place < count; ++place) {
      const uint32 number = source + (source >= task.sum_own ? 1 : 0);
      const TensorMap* map = sums;
      int32 first_column = column;
      int32 first_row = task.sum_row + static_cast<int32>(number) * task.sum_step;
      if (!kConfig.serves && task.sum_elsewhere != 0 && number == kConfig.adds) {
        const GemmDestination& from =
            params.destinations[task.first_destination + task.num_destinations];
        map = maps + from.map;
        first_column = from.column + column - task.sum_column;
        first_row = from.row;
      }
#pragma unroll 1
      for (int32 box = begin; box < end; ++box) {
        const int32 row = box * box_rows;
        tma_load(shared.piece(ring.slot, place) + static_cast<uint32>(row * kRowBytes), map,
                 first_column, first_row + row, full);
      }
      if (++source == kConfig.adds) {
        source = 0;
        column += kLayout.chunk_columns;
      }
    }
    ring.advance<kConfig.stages>();
  }
}

// One thread.
template <GemmConfig kConfig>
STRETTO_DEVICE void gemm_load(const GemmParams& params, const GemmShared<kConfig>& shared,
                              const GemmTask& first, uint32 begin, uint32 end) {
  constexpr GemmLayout kLayout = layout_of(kConfig);
  const uint32 rank = kLayout.cluster == 1 ? 0 : cluster_rank();
  const uint64 epoch = load_shared(shared.epoch);
  const TensorMap* maps = params.maps + epoch % params.map_sets * params.num_maps;
  RunRows run;
  if constexpr (kConfig.serves) run = read_rows(params.rows);
  RingPosition ring{0, 1};
  uint32 block = 0, ready = 0;  // with phases: of K, the next one, and those that may be loaded
  GemmTask next = first;
  GemmFollow next_follow{};
  if constexpr (kLayout.halves == 2) next_follow = params.follows[begin];
  [[maybe_unused]] GemmSource next_source{};
  if constexpr (kConfig.sources) next_source = params.sources[begin];
  [[maybe_unused]] EntryWalk<kConfig> entries(params, epoch, begin);
  for (uint32 i = begin; i < end; ++i) {
    const GemmTask task = next;
    if (i + 1 < end) next = params.tasks[i + 1];
    [[maybe_unused]] const GemmFollow follow = next_follow;
    if constexpr (kLayout.halves == 2) {
      if (i + 1 < end) next_follow = params.follows[i + 1];
    }
    [[maybe_unused]] const GemmSource source = next_source;
    if constexpr (kConfig.sources) {
      if (i + 1 < end) next_source = params.sources[i + 1];
    }
    if constexpr (!kConfig.phases) {
      if (task.num_waits != 0) {
        while (load_acquire_shared(shared.tasks_ready) <= i) {
        }
        fence_proxy_async();
      }
    }
    int32 a_row = task.a_row;
    [[maybe_unused]] int32 b_row = task.b_row, other_b_row = follow.b_row;
    if constexpr (kConfig.grouped) {
      const int32 down = entries.first_row(i, i + 1 < end && next.num_waits == 0, i + 1 < end);
      if (down < 0) {
        // A stage without data, for all who follow.
        barrier_wait(shared.empty + ring.slot * 8, ring.parity);
        shared.write_note(i, true);
        barrier_arrive(shared.full + ring.slot * 8);
        ring.advance<kConfig.stages>();
        continue;
      }
      b_row += down;
      other_b_row += down;
    }
    if constexpr (kConfig.serves) {
      if (rows_present<kConfig>(run, task.rows) == 0) {
        block += task.num_k;
        continue;
      }
      if ((task.rows.flags & kInputIsCompact) != 0) a_row += run.shift(task.rows.owner);
    }
    if constexpr (kConfig.adds > 0 && !kConfig.serves) {
      if (task.sum_elsewhere != 0) {
        prefetch_line(params.destinations + task.first_destination + task.num_destinations);
      }
    }
    const TensorMap* a_map = maps + task.a_map;
    const TensorMap* b_map = maps + task.b_map;
    int32 k = task.first_k * kTileK;
    for (uint32 left = task.num_k; left != 0; --left, k += kTileK) {
      if constexpr (kConfig.phases) {
        if (block >= ready) {
          do {
            ready = load_acquire_shared(shared.blocks_ready);
          } while (block >= ready);
          fence_proxy_async();
        }
        ++block;
      }
      const uint32 full = shared.full + ring.slot * 8;
      barrier_wait(shared.empty + ring.slot * 8, ring.parity);
      if constexpr (kConfig.grouped) {
        if (left == task.num_k) shared.write_note(i, false);
      }
      barrier_arrive_expect(full, (kConfig.gathers ? 0 : kLayout.a_bytes) + kLayout.b_bytes);
      constexpr bool kSharesA = kConfig.shared == Shared::a, kSharesB = kConfig.shared == Shared::b;
      const StagePlace to_a{shared.a + ring.slot * kLayout.a_bytes, kLayout.a_bytes, rank, full};
      if constexpr (kConfig.sources) {
        const uint32 done = task.num_k - left;
        const bool own = done < source.own_blocks;
        load_operand<kSharesA>(
            {own ? maps + source.own_map : a_map, own ? static_cast<int32>(done) * kTileK : k,
             own ? source.own_row : a_row},
            kLayout.a_box_rows, to_a);
      } else if constexpr (!kConfig.gathers) {
        load_operand<kSharesA>({a_map, k, a_row}, kLayout.a_box_rows, to_a);
      }
      const StagePlace to_b{shared.b + ring.slot * kLayout.b_bytes, kLayout.b_bytes, rank, full};
      if constexpr (kLayout.halves == 2) {
        load_halves<kSharesB>({b_map, k, b_row}, {maps + follow.b_map, k, other_b_row}, to_b);
      } else {
        load_operand<kSharesB>({b_map, k, b_row}, kLayout.b_box_rows, to_b);
      }
      ring.advance<kConfig.stages>();
      if constexpr (kConfig.sources) {
        if (k + kTileK == source.end_block * kTileK) k = -kTileK;
      }
    }
    if constexpr (kConfig.adds > 0) {
      if (task.sum_step != 0) {
        // Read anew ahead of the wait: what adds alone needs shall take no registers meanwhile.
        const GemmTask sums = params.tasks[i];
        while (load_acquire_shared(shared.sums_ready) <= i) {
        }
        fence_proxy_async();
        load_sums<kConfig>(params, shared, sums, maps, ring);
      }
    }
  }
}

// One warp. The waits of a task, those of a block of K at a time: the loads may go on up to the
// next block that has waits. `at` is the task's number, `first_block` counts the blocks of those
// before it.
template <GemmConfig kConfig>
STRETTO_DEVICE void wait_in_phases(const GemmParams& params, const GemmShared<kConfig>& shared,
                                   uint32 at, uint32 index, uint64 epoch, uint32 first_block) {
  const GemmTask& task = params.tasks[at];
  const WaitEntry* waits = params.waits + task.first_wait;
  const uint32 lane = threadIdx.x % 32;
  uint32 done = 0;
  for (;;) {
    const bool waits_here = done + lane < task.num_waits;
    const uint32 before = waits_here ? waits[done + lane].before : task.num_k;
    const uint32 next = __shfl_sync(0xffffffffu, before, 0);
    if (lane == 0) store_release_shared(shared.blocks_ready, first_block + next);
    if (done == task.num_waits) return;
    const uint32 together = __ballot_sync(0xffffffffu, waits_here && before == next);
    wait_signals(params.signals, epoch, waits + done, __popc(together), index, task.tile);
    if (lane == 0 && done == 0) mark(params.marks, at, Mark::ready);
    done += __popc(together);
    if (lane == 0 && done == task.num_waits) mark(params.marks, at, Mark::all_ready);
  }
}

// One warp. Runs ahead of the loads, so that a signal that has come costs them nothing.
template <GemmConfig kConfig>
STRETTO_DEVICE void gemm_wait(const GemmParams& params, const GemmShared<kConfig>& shared,
                              uint32 index, uint32 begin, uint32 end) {
  const uint64 epoch = load_shared(shared.epoch);
  uint32 first_block = 0;
  for (uint32 i = begin; i < end; ++i) {
    const GemmTask& task = params.tasks[i];
    if constexpr (kConfig.phases) {
      wait_in_phases<kConfig>(params, shared, i, index, epoch, first_block);
      first_block += task.num_k;
      if (threadIdx.x % 32 == 0) store_release_shared(shared.tasks_ready, i + 1);
    } else if (task.num_waits != 0) {
      wait_signals(params.signals, epoch, params.waits + task.first_wait, task.num_waits, index,
                   task.tile);
      if (threadIdx.x % 32 == 0) {
        store_release_shared(shared.tasks_ready, i + 1);
        mark(params.marks, i, Mark::ready);
      }
    }
    if (adds_late<kConfig>(params, task, i)) {
      wait_signals(params.signals, epoch, params.waits + task.first_wait + task.num_waits,
                   task.num_late_waits, index, task.tile);
      if (threadIdx.x % 32 == 0) {
        store_release_shared(shared.sums_ready, i + 1);
        mark(params.marks, i, Mark::all_ready);
      }
    }
  }
}

// The same warp behind all tasks: what the run awaits before the kernel may end.
template <GemmConfig kConfig>
STRETTO_DEVICE void gemm_wait_at_end(const GemmParams& params, const GemmShared<kConfig>& shared,
                                     uint32 index) {
  if (params.first_end_wait == nullptr) return;
  const uint32 begin = params.first_end_wait[index];
  const uint32 end = params.first_end_wait[index + 1];
  wait_signals(params.signals, load_shared(shared.epoch), params.waits + begin, end - begin, index,
               kAtEnd);
}

}  // namespace stretto::device

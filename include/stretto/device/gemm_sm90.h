// The GEMM kernel of Hopper: persistent, warp-specialised, driven by a task table (gemm_task.h).
//
//   wait warp    awaits the signals of task after task
//   load warp    feeds stages of A and B by TMA (multicast in pairs) once a task's signals have
//                come
//   consumers    warpgroups; multiply stages with wgmma, add to a finished tile what other ranks
//                sent where its task says so, and hand it over in chunks
//   store warp   sends chunks to every destination by TMA, then makes the task's notifies
//
// The load warp runs ahead into the next task while consumers finish one. With overlap_store a
// consumer whose next stage is ready keeps a finished tile rounded in registers and hands it over
// behind the multiplications of its next task, a chunk whenever there is room for one, so the
// tensor cores do not pause for it, nor for a link that takes it slowly.
#pragma once

#include "stretto/device/gemm_add.h"
#include "stretto/device/gemm_task.h"
#include "stretto/device/ptx_barrier.h"
#include "stretto/device/ptx_tma.h"
#include "stretto/device/ptx_wgmma.h"

namespace stretto::device {

// Shared-memory addresses of one block.
template <GemmConfig kConfig>
struct GemmShared {
  static constexpr GemmLayout kLayout = layout_of(kConfig);
  uint32 a, b, chunks, full, empty, chunk_full, chunk_empty;
  uint32 tasks_ready;  // one past the last task whose signals have come
  uint32 sums_ready;   // one past the last task whose sums to add have come
  uint32 source_set;   // of this run

  STRETTO_DEVICE explicit GemmShared(uint32 base) {
    a = (base + 1023) & ~1023u;
    b = a + kConfig.stages * kLayout.a_bytes;
    chunks = b + kConfig.stages * kLayout.b_bytes;
    full = chunks + kConfig.consumers * kLayout.chunk_slots * kLayout.chunk_bytes;
    empty = full + kConfig.stages * 8;
    chunk_full = empty + kConfig.stages * 8;
    chunk_empty = chunk_full + kConfig.consumers * kLayout.chunk_slots * 8;
    tasks_ready = chunk_empty + kConfig.consumers * kLayout.chunk_slots * 8;
    sums_ready = tasks_ready + 4;
    source_set = tasks_ready + 8;
  }
  STRETTO_DEVICE uint32 chunk_index(uint32 consumer, uint32 slot) const {
    return consumer * kLayout.chunk_slots + slot;
  }
  STRETTO_DEVICE uint32 chunk(uint32 consumer, uint32 slot) const {
    return chunks + chunk_index(consumer, slot) * kLayout.chunk_bytes;
  }

  STRETTO_DEVICE void init_barriers() const {
    for (int32 i = 0; i < kConfig.stages; ++i) {
      barrier_init(full + i * 8, 1);
      barrier_init(empty + i * 8, kConfig.consumers * 4 * kLayout.cluster);
    }
    for (int32 i = 0; i < kConfig.consumers * kLayout.chunk_slots; ++i) {
      barrier_init(chunk_full + i * 8, 4);
      barrier_init(chunk_empty + i * 8, 1);
    }
    store_release_shared(tasks_ready, 0);
    store_release_shared(sums_ready, 0);
    fence_barrier_init();
  }
};

// One operand's part of a stage: this block's own tile, or its half for both blocks of the cluster.
template <bool kIsShared>
STRETTO_DEVICE void load_operand(const TensorMap* map, int32 k, int32 row, uint32 destination,
                                 int32 tile_bytes, int32 box_rows, uint32 rank, uint32 barrier) {
  if constexpr (kIsShared) {
    tma_load_multicast(destination + rank * (tile_bytes / 2), map, k,
                       row + static_cast<int32>(rank) * box_rows, barrier, uint16{3});
  } else {
    tma_load(destination, map, k, row, barrier);
  }
}

// How many of a task's rows its run has.
template <GemmConfig kConfig>
STRETTO_DEVICE int32 rows_present(const RunRows& run, const TaskRows& rows) {
  return run.present(rows.owner, rows.first, kConfig.tile_m);
}

// One thread.
template <GemmConfig kConfig>
STRETTO_DEVICE void gemm_load(const GemmParams& params, const GemmShared<kConfig>& shared,
                              const GemmTask& first, uint32 begin, uint32 end) {
  constexpr GemmLayout kLayout = layout_of(kConfig);
  const uint32 rank = kLayout.cluster == 1 ? 0 : cluster_rank();
  const uint64 epoch = params.signals.control == nullptr ? 0 : params.signals.control->epoch;
  const TensorMap* maps = params.maps + epoch % params.map_sets * params.num_maps;
  RunRows run;
  if constexpr (kConfig.serves) run = read_rows(params.rows);
  RingPosition ring{0, 1};
  GemmTask next = first;
  for (uint32 i = begin; i < end; ++i) {
    const GemmTask task = next;
    if (i + 1 < end) next = params.tasks[i + 1];
    if (task.num_waits != 0) {
      while (load_acquire_shared(shared.tasks_ready) <= i) {
      }
      fence_proxy_async();
    }
    int32 a_row = task.a_row;
    if constexpr (kConfig.serves) {
      if (rows_present<kConfig>(run, task.rows) == 0) continue;
      if ((task.rows.flags & kInputIsCompact) != 0) a_row += run.shift(task.rows.owner);
    }
    const TensorMap* a_map = maps + task.a_map;
    const TensorMap* b_map = maps + task.b_map;
    int32 k = task.first_k * kTileK;
    for (uint32 left = task.num_k; left != 0; --left, k += kTileK) {
      const uint32 full = shared.full + ring.slot * 8;
      barrier_wait(shared.empty + ring.slot * 8, ring.parity);
      barrier_arrive_expect(full, kLayout.a_bytes + kLayout.b_bytes);
      load_operand<kConfig.shared == Shared::a>(a_map, k, a_row,
                                                shared.a + ring.slot * kLayout.a_bytes,
                                                kLayout.a_bytes, kLayout.a_box_rows, rank, full);
      load_operand<kConfig.shared == Shared::b>(b_map, k, task.b_row,
                                                shared.b + ring.slot * kLayout.b_bytes,
                                                kLayout.b_bytes, kLayout.b_box_rows, rank, full);
      ring.advance<kConfig.stages>();
    }
  }
}

// One warp. Runs ahead of the loads, so that a signal that has come costs them nothing.
template <GemmConfig kConfig>
STRETTO_DEVICE void gemm_wait(const GemmParams& params, const GemmShared<kConfig>& shared,
                              uint32 begin, uint32 end) {
  const uint64 epoch = params.signals.control == nullptr ? 0 : params.signals.control->epoch;
  if constexpr (kConfig.adds > 0) {
    if (threadIdx.x % 32 == 0) {
      store_release_shared(shared.source_set, static_cast<uint32>(epoch % params.map_sets));
    }
  }
  for (uint32 i = begin; i < end; ++i) {
    const GemmTask& task = params.tasks[i];
    if (task.num_waits != 0) {
      wait_signals(params.signals, epoch, params.waits + task.first_wait, task.num_waits,
                   blockIdx.x, task.tile);
      if (threadIdx.x % 32 == 0) store_release_shared(shared.tasks_ready, i + 1);
    }
    if (kConfig.adds > 0 && task.add_rows != 0) {
      wait_signals(params.signals, epoch, params.waits + task.first_wait + task.num_waits,
                   task.num_late_waits, blockIdx.x, task.tile);
      if (threadIdx.x % 32 == 0) store_release_shared(shared.sums_ready, i + 1);
    }
  }
}

// The rows of a chunk that a destination takes when it does not take all: in boxes of a power of
// two of them. Swizzling goes by shared-memory address, so a box may begin at any row of 128 bytes.
template <GemmConfig kConfig>
STRETTO_DEVICE void store_rows(const TensorMap* maps, const GemmDestination& to, int32 column,
                               int32 chunk_row, uint32 chunk) {
  constexpr int32 kRowBytes = layout_of(kConfig).chunk_bytes / kChunkRows;
  int32 row = chunk_row < to.begin ? to.begin : chunk_row;
  const int32 end = chunk_row + kChunkRows < to.end ? chunk_row + kChunkRows : to.end;
#pragma unroll 1
  while (row < end) {
    const int32 level = 31 - __clz(end - row);
    tma_store(maps + to.part_maps + (kPartMaps - 1 - level), to.column + column, to.row + row,
              chunk + static_cast<uint32>(row - chunk_row) * kRowBytes);
    row += 1 << level;
  }
}

// By the thread that stores, once all that it stored has arrived.
STRETTO_DEVICE void gemm_notify(const GemmParams& params, uint64 epoch, const GemmTask& task) {
  if (task.num_notifies == 0) return;
  tma_store_wait<0>();
  for (uint32 n = 0; n < task.num_notifies; ++n) {
    notify_signal(params.signals, epoch, params.notifies[task.first_notify + n]);
  }
}

// One thread.
template <GemmConfig kConfig>
STRETTO_DEVICE void gemm_store(const GemmParams& params, const GemmShared<kConfig>& shared,
                               uint32 begin, uint32 end) {
  constexpr GemmLayout kLayout = layout_of(kConfig);
  constexpr int32 kChunksAcross = kConfig.tile_n / kLayout.chunk_columns;
  constexpr int32 kConsumerRows = kConfig.tile_m / kConfig.consumers;
  const uint64 epoch = params.signals.control == nullptr ? 0 : params.signals.control->epoch;
  const TensorMap* maps = params.maps + epoch % params.map_sets * params.num_maps;
  RunRows run;
  if constexpr (kConfig.serves) run = read_rows(params.rows);
  RingPosition ring;
  for (uint32 i = begin; i < end; ++i) {
    const GemmTask task = params.tasks[i];
    int32 present = kConfig.tile_m, shift = 0;
    if constexpr (kConfig.serves) {
      present = rows_present<kConfig>(run, task.rows);
      if ((task.rows.flags & kOutputIsCompact) != 0) shift = run.shift(task.rows.owner);
      if (present == 0) {
        // No data that the waits let through stand between them and the notifies.
        if (task.num_waits != 0) {
          while (load_acquire_shared(shared.tasks_ready) <= i) {
          }
        }
        if (kConfig.adds > 0 && task.add_rows != 0) {
          while (load_acquire_shared(shared.sums_ready) <= i) {
          }
        }
        gemm_notify(params, epoch, task);
        continue;
      }
    }
    uint32 unread_slot = 0;
    for (int32 chunk = 0; chunk < kLayout.chunks; ++chunk) {
      const int32 row = chunk / kChunksAcross * 64;
      const int32 column = chunk % kChunksAcross * kLayout.chunk_columns;
      for (int32 consumer = 0; consumer < kConfig.consumers; ++consumer) {
        barrier_wait(shared.chunk_full + shared.chunk_index(consumer, ring.slot) * 8, ring.parity);
        for (uint32 d = 0; d < task.num_destinations; ++d) {
          GemmDestination to = params.destinations[task.first_destination + d];
          if constexpr (kConfig.serves) {
            to.row += shift;
            if (present < to.end) to.end = static_cast<uint16>(present);
          }
          const int32 chunk_row = consumer * kConsumerRows + row;
          const uint32 from = shared.chunk(consumer, ring.slot);
          if (to.begin <= chunk_row && chunk_row + kChunkRows <= to.end) {
            tma_store(maps + to.map, to.column + column, to.row + chunk_row, from);
          } else {
            store_rows<kConfig>(maps, to, column, chunk_row, from);
          }
        }
      }
      tma_store_commit();
      if (chunk > 0) {
        tma_store_wait_read<1>();
        for (int32 consumer = 0; consumer < kConfig.consumers; ++consumer) {
          barrier_arrive(shared.chunk_empty + shared.chunk_index(consumer, unread_slot) * 8);
        }
      }
      unread_slot = ring.slot;
      ring.advance<kLayout.chunk_slots>();
    }
    tma_store_wait_read<0>();
    for (int32 consumer = 0; consumer < kConfig.consumers; ++consumer) {
      barrier_arrive(shared.chunk_empty + shared.chunk_index(consumer, unread_slot) * 8);
    }
    gemm_notify(params, epoch, task);
  }
  tma_store_wait<0>();
}

// A consumer's end of its ring of chunks.
template <GemmConfig kConfig>
struct ChunkWriter {
  static constexpr GemmLayout kLayout = layout_of(kConfig);
  static constexpr int32 kRowBytes = kLayout.chunk_bytes / 64;
  static constexpr int32 kGroups = kLayout.chunk_columns / 8;  // of 8 columns
  static constexpr int32 kChunksAcross = kConfig.tile_n / kLayout.chunk_columns;

  const GemmShared<kConfig>& shared;
  uint32 consumer, warp, lane;  // warp within the consumer
  RingPosition ring{};

  // Of 16-byte unit `unit` in `row`, as the store's tensor map swizzles it.
  STRETTO_DEVICE uint32 offset(uint32 row, uint32 unit) const {
    return row * kRowBytes + ((unit ^ ((row * kRowBytes >> 7) & (kRowBytes / 16 - 1))) << 4);
  }
  STRETTO_DEVICE bool has_room() const {
    return __all_sync(0xffffffffu,
                      barrier_test(shared.chunk_empty + shared.chunk_index(consumer, ring.slot) * 8,
                                   ring.parity ^ 1));
  }
  STRETTO_DEVICE uint32 begin() {
    barrier_wait(shared.chunk_empty + shared.chunk_index(consumer, ring.slot) * 8, ring.parity ^ 1);
    return shared.chunk(consumer, ring.slot);
  }
  STRETTO_DEVICE void end() {
    fence_proxy_async_shared();
    __syncwarp();
    if (lane == 0) barrier_arrive(shared.chunk_full + shared.chunk_index(consumer, ring.slot) * 8);
    ring.template advance<kLayout.chunk_slots>();
  }

  // Chunk kChunk of a tile rounded to 16 bits: packed[2j] and packed[2j+1] are column group j's
  // rows r and r + 8.
  template <int32 kChunk, int32 kCount>
  STRETTO_DEVICE void write_packed(const uint32 (&packed)[kCount]) {
    const uint32 base = begin();
    const uint32 row = warp * 16 + lane % 16;
    constexpr int32 kFirst =
        (kChunk / kChunksAcross * (kConfig.tile_n / 8) + kChunk % kChunksAcross * kGroups) * 2;
#pragma unroll
    for (int32 j = 0; j < kGroups; j += 2) {
      const uint32 address = base + offset(row, j + lane / 16);
      asm volatile(
          "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
          "r"(packed[kFirst + 2 * j]), "r"(packed[kFirst + 2 * j + 1]),
          "r"(packed[kFirst + 2 * j + 2]), "r"(packed[kFirst + 2 * j + 3])
          : "memory");
    }
    end();
  }

  template <int32 kChunk, int32 kMmas, int32 kCount>
  STRETTO_DEVICE void write_fp32(const float (&sums)[kMmas][kCount]) {
    const uint32 base = begin();
    const float* from = sums[kChunk / kChunksAcross] + kChunk % kChunksAcross * kGroups * 4;
#pragma unroll
    for (int32 j = 0; j < kGroups; ++j) {
#pragma unroll
      for (int32 half = 0; half < 2; ++half) {
        const uint32 row = warp * 16 + lane / 4 + half * 8;
        const uint32 address = base + offset(row, 2 * j + lane % 4 / 2) + lane % 2 * 8;
        asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(address), "f"(from[4 * j + 2 * half]),
                     "f"(from[4 * j + 2 * half + 1])
                     : "memory");
      }
    }
    end();
  }

  template <int32 kFirst, int32 kCount>
  STRETTO_DEVICE void write_packed_from(const uint32 (&packed)[kCount]) {
    if constexpr (kFirst < kLayout.chunks) {
      write_packed<kFirst>(packed);
      write_packed_from<kFirst + 1>(packed);
    }
  }
  // The chunk of that number, kFirst or a later one.
  template <int32 kFirst, int32 kCount>
  STRETTO_DEVICE void write_packed_number(const uint32 (&packed)[kCount], int32 number) {
    if constexpr (kFirst < kLayout.chunks) {
      if (number == kFirst) {
        write_packed<kFirst>(packed);
      } else {
        write_packed_number<kFirst + 1>(packed, number);
      }
    }
  }
  template <int32 kFirst, int32 kMmas, int32 kCount>
  STRETTO_DEVICE void write_fp32_from(const float (&sums)[kMmas][kCount]) {
    if constexpr (kFirst < kLayout.chunks) {
      write_fp32<kFirst>(sums);
      write_fp32_from<kFirst + 1>(sums);
    }
  }
};

template <GemmConfig kConfig>
STRETTO_DEVICE void gemm_multiply(const GemmParams& params, const GemmShared<kConfig>& shared,
                                  uint32 consumer, uint32 begin, uint32 end) {
  constexpr GemmLayout kLayout = layout_of(kConfig);
  constexpr int32 kMmas = kConfig.tile_m / kConfig.consumers / 64;
  constexpr int32 kSums = kConfig.tile_n / 2;
  constexpr bool kPacks = kConfig.output != OutputType::fp32;
  constexpr bool kOverlaps = kPacks && kConfig.overlap_store;
  constexpr uint32 kCluster = kLayout.cluster;
  const uint32 lane = threadIdx.x % 32;
  ChunkWriter<kConfig> writer{shared, consumer, threadIdx.x / 32 % 4, lane};
  RingPosition ring;
  float sums[kMmas][kSums];
  uint32 packed[kPacks ? kMmas * kSums / 2 : 1];

  // Both descriptors carry the address in their low word only.
  const uint64 a_base =
      wgmma_descriptor(shared.a + consumer * (kLayout.a_bytes / kConfig.consumers));
  const uint64 b_base = wgmma_descriptor(shared.b);
  uint32 previous_slot = 0;

  int32 handed = kLayout.chunks;  // of the tile before, to the store warp
  // The next stage. Whoever is awaited for its data may itself be waiting for the tile held here,
  // and the other consumer's chunks go together with this one's: so this one's go on meanwhile.
  const auto await_stage = [&] {
    const uint32 full = shared.full + ring.slot * 8;
    if constexpr (kOverlaps) {
      while (handed < kLayout.chunks && !__all_sync(0xffffffffu, barrier_test(full, ring.parity))) {
        if (writer.has_room()) writer.template write_packed_number<0>(packed, handed++);
      }
    }
    barrier_wait(full, ring.parity);
  };
  const auto multiply_stage = [&](bool first) {
    await_stage();
    const uint64 a = a_base + ring.slot * (kLayout.a_bytes >> 4);
    const uint64 b = b_base + ring.slot * (kLayout.b_bytes >> 4);
    wgmma_fence();
#pragma unroll
    for (int32 k = 0; k < kTileK / 16; ++k) {
#pragma unroll
      for (int32 m = 0; m < kMmas; ++m) {
        Wgmma<kConfig.tile_n, kConfig.bf16>::run(
            sums[m], a + m * (64 * kTileK * 2 >> 4) + k * kDescriptorStepK,
            b + k * kDescriptorStepK, !first || k != 0);
      }
    }
    wgmma_commit();
  };
  const auto release = [&](uint32 slot) {
    if constexpr (kCluster == 1) {
      if (lane == 0) barrier_arrive(shared.empty + slot * 8);
    } else {
      if (lane < kCluster) barrier_arrive_at(shared.empty + slot * 8, lane);
    }
  };

  RunRows run;
  if constexpr (kConfig.serves) run = read_rows(params.rows);
  // 0: the tile has no rows in this run.
  const auto num_k_of = [&](uint32 i) -> uint32 {
    if constexpr (kConfig.serves) {
      if (rows_present<kConfig>(run, params.tasks[i].rows) == 0) return 0;
    }
    return params.tasks[i].num_k;
  };
  uint32 next_num_k = num_k_of(begin);
  for (uint32 i = begin; i < end; ++i) {
    const uint32 num_k = next_num_k;
    if (i + 1 < end) next_num_k = num_k_of(i + 1);
    if constexpr (kConfig.serves) {
      if (num_k == 0) continue;
    }
    multiply_stage(true);
    previous_slot = ring.slot;
    ring.advance<kConfig.stages>();
    for (uint32 k = 1; k < num_k; ++k) {
      multiply_stage(false);
      if constexpr (kOverlaps) {
        if (handed < kLayout.chunks && writer.has_room()) {
          writer.template write_packed_number<0>(packed, handed++);
        }
      }
      wgmma_wait<1>();
      release(previous_slot);
      previous_slot = ring.slot;
      ring.advance<kConfig.stages>();
    }
    if constexpr (kOverlaps) {
      while (handed < kLayout.chunks) writer.template write_packed_number<0>(packed, handed++);
    }
    wgmma_wait<0>();
    // Keeps the compiler from reading sums ahead of the wait, which it does not see as their
    // writer.
#pragma unroll
    for (int32 m = 0; m < kMmas; ++m) {
#pragma unroll
      for (int32 j = 0; j < kSums; ++j) asm volatile("" : "+f"(sums[m][j])::"memory");
    }
    release(previous_slot);

    if constexpr (kPacks) {
#pragma unroll
      for (int32 m = 0; m < kMmas; ++m) {
#pragma unroll
        for (int32 j = 0; j < kSums / 2; ++j) {
          packed[m * (kSums / 2) + j] =
              pack_pair<kConfig.output == OutputType::bf16>(sums[m][2 * j], sums[m][2 * j + 1]);
        }
      }
      if constexpr (kConfig.adds > 0) {
        const GemmTask& task = params.tasks[i];
        if (task.add_rows != 0) {
          while (load_acquire_shared(shared.sums_ready) <= i) {
          }
          const uint32 set = load_acquire_shared(shared.source_set);
          SourceAdder<kConfig>(task, params.sources + set * params.num_sources, consumer)
              .add_to(packed);
        }
      }
      if constexpr (kOverlaps) {
        handed = 0;
      } else {
        writer.template write_packed_from<0>(packed);
      }
    } else {
      writer.template write_fp32_from<0>(sums);
    }
  }
  if constexpr (kOverlaps) {
    if (handed == 0) writer.template write_packed_from<0>(packed);
  }
}

// The register budgets of a thread: together no more than the 64 K of an SM.
inline constexpr int32 kConsumerRegisters = 224;
inline constexpr int32 kMoverRegisters = 56;

template <GemmConfig kConfig>
STRETTO_DEVICE void gemm_sm90(const GemmParams& params) {
  extern __shared__ uint8 shared_memory[];
  constexpr GemmLayout kLayout = layout_of(kConfig);
  const GemmShared<kConfig> shared(shared_address(shared_memory));
  const uint32 warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0);
  const uint32 lane = threadIdx.x % 32;
  const bool moves = warp >= static_cast<uint32>(kConfig.consumers) * 4;
  const bool loads = moves && warp % 4 == 0 && lane == 0;
  const bool stores = moves && warp % 4 == 1 && lane == 0;

  // What the first load needs is fetched while the barriers are being made.
  if (moves && warp % 4 == 2 && lane < params.num_maps) prefetch_tensor_map(params.maps + lane);
  const uint32 begin = params.first_task[blockIdx.x];
  const uint32 end = params.first_task[blockIdx.x + 1];
  GemmTask first{};
  if (loads && begin < end) first = params.tasks[begin];

  if (threadIdx.x == 0) shared.init_barriers();
  if constexpr (kLayout.cluster > 1) cluster_sync();
  __syncthreads();

  if (moves) {
    give_registers<kMoverRegisters>();
    if (begin < end && loads) gemm_load<kConfig>(params, shared, first, begin, end);
    if (begin < end && stores) gemm_store<kConfig>(params, shared, begin, end);
    if (begin < end && warp % 4 == 2) gemm_wait<kConfig>(params, shared, begin, end);
    __syncwarp();
  } else {
    take_registers<kConsumerRegisters>();
    if (begin < end) gemm_multiply<kConfig>(params, shared, warp / 4, begin, end);
  }
  // A block's shared memory must outlive the arrivals and multicasts of its partner.
  if constexpr (kLayout.cluster > 1) cluster_sync();
}

}  // namespace stretto::device

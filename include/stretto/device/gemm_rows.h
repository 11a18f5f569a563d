// Rows that the blocks of the GEMM kernel norm behind their last tile: tasks of a mover's table, of
// one kind. So they begin while the last tiles are still on their way to other GPUs, and no kernel
// has to start for them.
//
//   wait warp    awaits the block's own tiles, of which no signal tells it, and the signals of
//                task after task
//   consumers    each takes every other row of a task: sums its sources, or takes the only one,
//                keeps the row in registers until it knows its squares, and stores the sum where
//                the task says so, and its norm
//
// A task's rows are of 16 bits and in the block's own memory, and nobody is told of them: what
// reads them comes behind the kernel.
#pragma once

#include "stretto/device/gemm_add.h"
#include "stretto/device/gemm_block.h"
#include "stretto/device/norms.h"
#include "stretto/device/tile_rows.h"

namespace stretto::device {

#ifdef STRETTO_DEVICE

// By the wait warp of block `index`.
template <GemmConfig kConfig>
STRETTO_DEVICE void await_rows(const MoverParams& params, const GemmShared<kConfig>& shared,
                               uint32 index, bool has_tiles) {
  const uint64 epoch = load_shared(shared.epoch);
  const uint32 begin = params.first_task[index], end = params.first_task[index + 1];
  while (has_tiles && load_acquire_shared(shared.tiles_stored) == 0) {
  }
  for (uint32 t = begin; t < end; ++t) {
    const MoverTask& task = params.tasks[t];
    if (task.num_waits != 0) {
      wait_signals(params.signals, epoch, params.waits + task.first_wait, task.num_waits,
                   kMoverLane | index, task.tile);
    }
    if (threadIdx.x % 32 == 0) {
      store_release_shared(shared.rows_ready, t - begin + 1);
      mark(params.marks, t, Mark::ready);
    }
  }
}

template <GemmConfig kConfig>
class RowNorms {
  using Half = OutputHalf<kConfig>;
  using Eight = HalvesX8<Half>;
  // Of a row, those whose sources are on their way at once.
  static constexpr uint32 kAtOnce = 4;

 public:
  STRETTO_DEVICE RowNorms(const GemmShared<kConfig>& shared, uint32 consumer)
      : shared_(shared), consumer_(consumer), thread_(threadIdx.x % kWarpgroup) {}

  // By all threads of the consumer. `regions`: the task's sources, its destinations, the norm's
  // last, and the weights. A row that is longer than what the threads keep is read twice.
  STRETTO_DEVICE void norm(const MoverTask& task, const MoverRegion* regions) const {
    constexpr uint32 kKept = kEightsOfTileRows * 8 * kWarpgroup;
    const MoverRegion* const to = regions + task.num_sources;
    const MoverRegion* const normed = to + (task.num_destinations - task.num_normed);
    const MoverRegion* const end = to + task.num_destinations;
    const bool is_kept = task.columns <= kKept;
#pragma unroll 1
    for (uint32 row = consumer_; row < task.rows; row += kConfig.consumers) {
      Vec16 kept[kEightsOfTileRows];
      float squares = 0;
#pragma unroll 1
      for (uint32 column = thread_ * 8; column - thread_ * 8 < task.columns; column += kKept) {
        fill(task, regions, row, column, kept);
#pragma unroll
        for (uint32 i = 0; i < kEightsOfTileRows; ++i) {
          float values[8];
          Eight::read(values, kept[i]);
#pragma unroll
          for (uint32 j = 0; j < 8; ++j) squares += values[j] * values[j];
        }
        store(task, to, normed, row, column, kept);
      }
      const float factor = norm_factor(sum_of_consumer(squares), task.columns, task.epsilon);
#pragma unroll 1
      for (uint32 column = thread_ * 8; column - thread_ * 8 < task.columns; column += kKept) {
        if (!is_kept) fill(task, regions, row, column, kept);
#pragma unroll
        for (uint32 i = 0; i < kEightsOfTileRows; ++i) {
          if (column + step(i) >= task.columns) continue;
          float values[8], scales[8];
          Eight::read(values, kept[i]);
          Eight::read(scales,
                      *reinterpret_cast<const Vec16*>(end->address + (column + step(i)) * 2));
#pragma unroll
          for (uint32 j = 0; j < 8; ++j) values[j] *= factor * scales[j];
          kept[i] = Eight::round(values);
        }
        store(task, normed, end, row, column, kept);
      }
    }
  }

 private:
  // From a thread's first vector to the one with that number.
  static STRETTO_DEVICE constexpr uint32 step(uint32 eight) { return eight * kWarpgroup * 8; }
  static STRETTO_DEVICE uint64 place(const MoverRegion& region, uint32 row, uint32 column) {
    return region.address + row * region.row_bytes + column * 2;
  }

  STRETTO_DEVICE void store(const MoverTask& task, const MoverRegion* at, const MoverRegion* end,
                            uint32 row, uint32 column,
                            const Vec16 (&kept)[kEightsOfTileRows]) const {
#pragma unroll 1
    for (; at != end; ++at) {
      const uint64 to = place(*at, row, column);
#pragma unroll
      for (uint32 i = 0; i < kEightsOfTileRows; ++i) {
        if (column + step(i) < task.columns) store_vector(to + step(i) * 2, kept[i]);
      }
    }
  }

  // What the thread has of a row from `column` on, as it is rounded; zeros behind its end.
  STRETTO_DEVICE void fill(const MoverTask& task, const MoverRegion* regions, uint32 row,
                           uint32 column, Vec16 (&kept)[kEightsOfTileRows]) const {
    const auto load = [&](const MoverRegion& from, uint32 i) {
      return column + step(i) < task.columns ? load_vector(place(from, row, column + step(i)))
                                             : Vec16{};
    };
    const MoverRegion own = regions[0];
#pragma unroll
    for (uint32 i = 0; i < kEightsOfTileRows; ++i) kept[i] = load(own, i);
    if (task.num_sources == 1) return;
#pragma unroll
    for (uint32 first = 0; first < kEightsOfTileRows; first += kAtOnce) {
      float sums[kAtOnce][8];
#pragma unroll
      for (uint32 i = 0; i < kAtOnce; ++i) Eight::read(sums[i], kept[first + i]);
#pragma unroll 1
      for (uint32 source = 1; source < task.num_sources; ++source) {
        const MoverRegion from = regions[source];
        Vec16 parts[kAtOnce];
#pragma unroll
        for (uint32 i = 0; i < kAtOnce; ++i) parts[i] = load(from, first + i);
#pragma unroll
        for (uint32 i = 0; i < kAtOnce; ++i) Eight::add(sums[i], parts[i]);
      }
#pragma unroll
      for (uint32 i = 0; i < kAtOnce; ++i) kept[first + i] = Eight::round(sums[i]);
    }
  }

  // Over all its threads, in one order.
  STRETTO_DEVICE float sum_of_consumer(float value) const {
    const auto sum_of_warp = [](float one) {
#pragma unroll
      for (int distance = 16; distance > 0; distance /= 2) {
        one += __shfl_xor_sync(0xffffffffu, one, distance);
      }
      return one;
    };
    const uint32 barrier = 1 + consumer_, words = shared_.squares + consumer_ * 16;
    value = sum_of_warp(value);
    if (thread_ % 32 == 0) store_shared_word(words + thread_ / 32 * 4, bits_of_float(value));
    group_barrier(barrier, kWarpgroup);
    float sum = 0;
#pragma unroll
    for (uint32 warp = 0; warp < kWarpgroup / 32; ++warp) {
      sum += float_of_bits(load_shared_word(words + warp * 4));
    }
    group_barrier(barrier, kWarpgroup);  // before the next row's words
    return sum;
  }

  const GemmShared<kConfig>& shared_;
  const uint32 consumer_, thread_;
};

// By a consumer of block `index`, behind its tiles.
template <GemmConfig kConfig>
STRETTO_DEVICE void gemm_rows(const MoverParams& params, const GemmShared<kConfig>& shared,
                              uint32 consumer, uint32 index) {
  const RowNorms<kConfig> norms(shared, consumer);
  const uint64 epoch = load_shared(shared.epoch);
  const MoverRegion* const regions =
      params.regions + epoch % params.region_sets * params.num_regions;
  const uint32 begin = params.first_task[index], end = params.first_task[index + 1];
  for (uint32 t = begin; t < end; ++t) {
    while (load_acquire_shared(shared.rows_ready) <= t - begin) {
    }
    const MoverTask task = params.tasks[t];
    if (task.num_sources == 0) continue;  // it only waits
    const MoverRegion* const of_task = regions + task.first_region;
    norms.norm(task, of_task);
    if (threadIdx.x == 0) mark(params.marks, t, Mark::done);
  }
}

#endif  // STRETTO_DEVICE

}  // namespace stretto::device

// The add warps of a mover at tasks that norm: sums of sources, stored where the task says so, and
// the RMSNorm of their rows.
//
// All add warps share a piece and keep its sums in registers, as they were rounded, until they know
// their squares. So nothing is read twice but a row that is longer than a piece.
#pragma once

#include "stretto/device/mover_map.h"
#include "stretto/device/norms.h"

namespace stretto::device {

#ifdef STRETTO_DEVICE

STRETTO_DEVICE float sum_of_warp(float value) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(0xffffffffu, value, distance);
  }
  return value;
}

// Over all threads of each row, of which there are as many as kAddWarps / `warps`.
STRETTO_DEVICE float sum_of_row(const MoverShared& shared, uint32 warps, float value) {
  constexpr uint32 kBarrier = 1, kThreads = kAddWarps * 32;
  value = sum_of_warp(value);
  if (warps == 1) return value;
  const uint32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (lane == 0) store_shared_word(shared.squares + warp * 4, bits_of_float(value));
  group_barrier(kBarrier, kThreads);
  const uint32 first = warp / warps * warps;
  value = lane < warps ? float_of_bits(load_shared_word(shared.squares + (first + lane) * 4)) : 0;
  group_barrier(kBarrier, kThreads);
  return sum_of_warp(value);
}

STRETTO_DEVICE void load_eight(uint64 address, MoverType type, float* values) {
  const auto* from = reinterpret_cast<const Vec16*>(address);
  EightRounded eight{from[0], {}};
  if (type == MoverType::fp32) eight.high = from[1];
  widen_eight(type, eight, values);
}

// By all add warps.
template <MoverType kFrom>
STRETTO_DEVICE void norm_task(const MoverShared& shared, const TaskWalk& walk, uint32& stage) {
  constexpr uint32 kEights = kEightsOf<kFrom, kAddWarps>;
  const MoverTask& task = walk.task();
  const MoverType to_type = kFrom == MoverType::fp32 ? task.to : kFrom;
  const MoverPieces pieces(task);
  if (pieces.count == 0) return;
  const uint32 threads = kAddWarps * 32 / pieces.rows;  // of a row: a power of two
  const uint32 place = (threadIdx.x & (threads - 1)) * 8;
  uint32 row = threadIdx.x / threads, column = 0, pass = 0;
  float squares = 0, factor = 0;
  for (uint32 left = pieces.count; left != 0; --left) {
    // What is left of this thread's row in the piece.
    const uint32 rest = task.columns - column;
    const uint32 columns = rest < pieces.columns ? rest : pieces.columns;
    const uint32 first = threadIdx.x / threads * columns + place;
    float sums[kEights * 8] = {};
#pragma unroll 1
    for (uint32 s = stages_of<true>(walk); s != 0; --s, ++stage) {
      const uint32 slot = slot_of(stage);
      await_begun(shared, stage);
      barrier_wait(shared.full + slot * 8, parity_of(stage));
      add_stage<kFrom>(shared.stages + slot * kStageBytes, first / 8, threads, sums);
      __syncwarp();
      if (threadIdx.x % 32 == 0) barrier_arrive(shared.empty + slot * 8);
    }

    const auto is_there = [&](uint32 i) {
      return row < task.rows && place + i * threads * 8 < columns;
    };
    // What is rounded already, or will be now.
    const auto store = [&](uint32 from, uint32 end) {
#pragma unroll 1
      for (uint32 d = from; d < end; ++d) {
        const MoverRegion to = walk.region(d);
        const uint64 address = address_in(to, row, column + place, to_type);
#pragma unroll
        for (uint32 i = 0; i < kEights; ++i) {
          if (!is_there(i)) continue;
          const uint64 at = address + i * threads * 8 * bytes_of(to_type);
          const EightRounded rounded = round_eight(to_type, sums + 8 * i);
          store_vector(at, rounded.low);
          if (to_type == MoverType::fp32) store_vector(at + 16, rounded.high);
        }
      }
    };
#pragma unroll
    for (uint32 i = 0; i < kEights; ++i) {
      widen_eight(to_type, round_eight(to_type, sums + 8 * i), sums + 8 * i);
    }
    if (pass == 0) {
      store(0, task.num_destinations - task.num_normed);
#pragma unroll
      for (uint32 i = 0; i < kEights; ++i) {
        if (!is_there(i)) continue;
#pragma unroll
        for (uint32 j = 0; j < 8; ++j) squares += sums[8 * i + j] * sums[8 * i + j];
      }
      if (rest == columns) {
        squares = sum_of_row(shared, threads / 32, squares);
        factor = norm_factor(squares, task.columns, walk.entry().epsilon);
        squares = 0;
      }
    }
    if (pass + 1 == pieces.passes) {
      const MoverType type = walk.entry().weights;
      const uint64 weights = address_in(walk.weights(), 0, column + place, type);
#pragma unroll
      for (uint32 i = 0; i < kEights; ++i) {
        if (!is_there(i)) continue;
        float values[8];
        load_eight(weights + i * threads * 8 * bytes_of(type), type, values);
#pragma unroll
        for (uint32 j = 0; j < 8; ++j) sums[8 * i + j] *= factor * values[j];
      }
      store(task.num_destinations - task.num_normed, task.num_destinations);
    }

    column += columns;
    if (column == task.columns) {
      column = 0;
      if (++pass == pieces.passes) {
        pass = 0;
        row += pieces.rows;
      }
    }
  }
}

#endif  // STRETTO_DEVICE

}  // namespace stretto::device

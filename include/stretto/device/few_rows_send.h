// How the kernel of few rows sends the vectors of a tile to ranks' slots, or into the result.
#pragma once

#include "stretto/device/few_rows_sums.h"
#include "stretto/device/lang/gpu_words.h"

namespace stretto::device {

#ifdef STRETTO_DEVICE

// The blocks with ranges of K of a tile share out its vectors; a thread has kAtOnce under way.
template <FewRowsConfig kConfig>
STRETTO_DEVICE void few_rows_send(const FewRowsParams& params, const FewRowsShared<kConfig>& shared,
                                  const FewRowsPart& part) {
  constexpr uint32 kAcross = kConfig.stored_columns() / 8, kThreads = layout_of(kConfig).threads;
  constexpr uint32 kStep = kThreads * kConfig.splits, kAll = kConfig.rows * kAcross;
  constexpr uint32 kAtOnce = 4;
  const RowTargets& targets = params.targets;
  const bool to_slots = targets.state != nullptr;
  const uint64 buffer = to_slots ? *targets.state % 2 * targets.parity_bytes : 0;
  const auto column_of = [&](uint32 v) { return part.column + v % kAcross * 8; };
  const auto row_of = [&](uint32 v) { return part.row + v / kAcross; };
  const auto has = [&](uint32 v) {
    return v < kAll && row_of(v) < params.rows && column_of(v) < params.columns;
  };
#pragma unroll 1
  for (uint32 first = threadIdx.x + part.range * kThreads; first < kAll; first += kAtOnce * kStep) {
    Vec16 values[kAtOnce];
#pragma unroll
    for (uint32 i = 0; i < kAtOnce; ++i) {
      const uint32 v = first + i * kStep;
      if (v < kAll)
        values[i] = few_rows_rounded<kConfig>(params, shared, v / kAcross, v % kAcross * 8,
                                              column_of(v), to_slots);
    }
    const auto send = [&](uint32 i, uint32 rank, uint32 row) {
      const uint64 vector =
          static_cast<uint64>(row) * targets.row_vectors + column_of(first + i * kStep) / 8;
      store_strong(reinterpret_cast<Vec16*>(targets.slots[rank] + buffer + vector * 16), values[i],
                   Scope::kSystem);
    };
    if (targets.part_rows != 0) {
#pragma unroll
      for (uint32 i = 0; i < kAtOnce; ++i) {
        const uint32 v = first + i * kStep, row = row_of(v);
        if (!has(v)) continue;
        const uint32 owner = row / targets.part_rows;
        send(i, owner, row - owner * targets.part_rows);
      }
    } else {
#pragma unroll 1
      for (int32 k = 1; k <= params.ranks; ++k) {
        const int32 rank = params.rank + k;
#pragma unroll
        for (uint32 i = 0; i < kAtOnce; ++i) {
          const uint32 v = first + i * kStep;
          if (has(v)) send(i, rank < params.ranks ? rank : rank - params.ranks, row_of(v));
        }
      }
    }
  }
}

#endif  // STRETTO_DEVICE

}  // namespace stretto::device

// How the kernel of few rows sends the vectors of a tile to ranks' slots, or into the result.
#pragma once

#include "stretto/device/few_rows_sums.h"
#include "stretto/device/lang/gpu_words.h"

namespace stretto::device {

#ifdef STRETTO_DEVICE

// The blocks with ranges of K of a tile share out its vectors; each of kThreads that send has
// kAtOnce under way.
template <FewRowsConfig kConfig, uint32 kThreads>
STRETTO_DEVICE void few_rows_send(const FewRowsParams& params, const FewRowsShared<kConfig>& shared,
                                  const FewRowsPart& part, uint32 thread) {
  constexpr uint32 kAcross = kConfig.stored_columns() / 8;
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
  for (uint32 first = thread + part.range * kThreads; first < kAll; first += kAtOnce * kStep) {
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

// A tile's vectors by kThreads, of which each has a place in every kRowsBeside-th row, kAtOnce
// under way: what senders do while others multiply, so places are found by sums.
template <FewRowsConfig kConfig, uint32 kThreads, uint32 kAtOnce>
STRETTO_DEVICE void few_rows_send_rounded(const FewRowsParams& params,
                                          const FewRowsShared<kConfig>& shared,
                                          const FewRowsPart& part, uint32 thread) {
  constexpr uint32 kAcross = kConfig.columns / 8, kRowsBeside = kThreads / kAcross;
  static_assert(kThreads % kAcross == 0 && kConfig.columns == 2 * kFewRowsColumns);
  const RowTargets& targets = params.targets;
  const uint32 column = part.column + thread % kAcross * 8;
  if (column >= params.columns) return;
  const uint64 buffer = targets.state != nullptr ? *targets.state % 2 * targets.parity_bytes : 0;
  const uint64 step = static_cast<uint64>(targets.row_vectors) * kRowsBeside * 16;
  const uint32 left = params.rows - part.row, end = left < kConfig.rows ? left : kConfig.rows;
  uint32 row = thread / kAcross;
  uint64 to =
      buffer + (static_cast<uint64>(part.row + row) * targets.row_vectors + column / 8) * 16;
  uint32 from = shared.element(0, row, thread % kAcross * 8);
  const uint64 part_bytes = static_cast<uint64>(targets.part_rows) * targets.row_vectors * 16;
#pragma unroll 1
  for (; row < end; row += kAtOnce * kRowsBeside) {
    Vec16 values[kAtOnce];
#pragma unroll
    for (uint32 i = 0; i < kAtOnce; ++i) {
      if (row + i * kRowsBeside < end) {
        values[i] = load_shared_vector(from + i * kRowsBeside * shared.kLayout.row_bytes);
      }
    }
    const auto send = [&](uint32 i, uint64 address) {
      store_strong(reinterpret_cast<Vec16*>(address), values[i], Scope::kSystem);
    };
    if (targets.part_rows != 0) {
#pragma unroll
      for (uint32 i = 0; i < kAtOnce; ++i) {
        if (row + i * kRowsBeside >= end) continue;
        const uint32 owner = (part.row + row + i * kRowsBeside) / targets.part_rows;
        send(i, targets.slots[owner] + to + i * step - owner * part_bytes);
      }
    } else {
#pragma unroll 1
      for (int32 k = 1; k <= params.ranks; ++k) {
        const int32 rank = params.rank + k;
        const uint64 there = targets.slots[rank < params.ranks ? rank : rank - params.ranks] + to;
#pragma unroll
        for (uint32 i = 0; i < kAtOnce; ++i) {
          if (row + i * kRowsBeside < end) send(i, there + i * step);
        }
      }
    }
    from += kAtOnce * kRowsBeside * shared.kLayout.row_bytes;
    to += kAtOnce * step;
  }
}

#endif  // STRETTO_DEVICE

}  // namespace stretto::device

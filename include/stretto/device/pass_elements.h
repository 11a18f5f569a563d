// Tasks of a pass (pass.h) that work element by element, and norms of rows: from memory to
// registers and back, with the bits of the movers' add warps, but for the order in which a norm
// adds squares.
#pragma once

#include "stretto/device/mover_norm.h"

namespace stretto::device {

// A block's threads, and the longest row of which they keep all sums.
inline constexpr uint32 kPassThreads = 512;
inline constexpr uint32 kPassBlocksOfSm = 2;  // at once
inline constexpr uint32 kMostEights = 4;      // of a thread
inline constexpr uint32 kPassColumns = kPassThreads * kMostEights * 8;

#ifdef STRETTO_DEVICE

// A slice of a task's work, of so many.
struct Slice {
  uint32 index, count;
};

// Eight elements as they lie in memory: of fp32 where they are wide.
template <bool kWide>
struct PassEight {
  Vec16 low;
};
template <>
struct PassEight<true> {
  Vec16 low, high;
};
template <bool kWide>
STRETTO_DEVICE void load_eight_of(uint64 address, PassEight<kWide>& eight) {
  eight.low = load_vector(address);
  if constexpr (kWide) eight.high = load_vector(address + 16);
}
template <bool kWide>
STRETTO_DEVICE void add_eight_of(MoverType type, const PassEight<kWide>& eight, float* sums) {
  if constexpr (kWide) {
    Fp32x4::add(sums, eight.low);
    Fp32x4::add(sums + 4, eight.high);
  } else if (type == MoverType::bf16) {
    Bf16x8::add(sums, eight.low);
  } else {
    Fp16x8::add(sums, eight.low);
  }
}
STRETTO_DEVICE void store_eight_of(uint64 address, MoverType type, const float* values) {
  const EightRounded rounded = round_eight(type, values);
  store_vector(address, rounded.low);
  if (type == MoverType::fp32) store_vector(address + 16, rounded.high);
}

// What a task that copies, adds or maps makes of its eights.
template <bool kWide>
STRETTO_DEVICE void pass_eights(const MoverTask& task, const MoverRegion* regions, Slice slice) {
  constexpr uint32 kAtOnce = kWide ? 1 : 2;
  const uint32 across = task.columns / 8, count = across * task.rows;
  const uint32 step = slice.count * kPassThreads;
  const MoverRegion* const to = regions + task.num_sources;
#pragma unroll 1
  for (uint32 first = slice.index * kPassThreads + threadIdx.x; first < count;
       first += step * kAtOnce) {
    uint32 rows[kAtOnce], columns[kAtOnce];
#pragma unroll
    for (uint32 i = 0; i < kAtOnce; ++i) {
      const uint32 eight = first + i * step;
      rows[i] = eight < count ? eight / across : ~0u;
      columns[i] = (eight - rows[i] * across) * 8;
    }
    const auto load = [&](uint32 s, PassEight<kWide>(&parts)[kAtOnce]) {
#pragma unroll
      for (uint32 i = 0; i < kAtOnce; ++i) {
        if (rows[i] == ~0u) continue;
        load_eight_of<kWide>(address_in(regions[s], rows[i], columns[i], task.from), parts[i]);
      }
    };
    PassEight<kWide> own[kAtOnce] = {}, next[kAtOnce] = {};
    load(0, own);
    if (is_copy(task)) {
#pragma unroll 1
      for (uint32 d = 0; d < task.num_destinations; ++d) {
#pragma unroll
        for (uint32 i = 0; i < kAtOnce; ++i) {
          if (rows[i] == ~0u) continue;
          const uint64 address = address_in(to[d], rows[i], columns[i], task.to);
          store_vector(address, own[i].low);
          if constexpr (kWide) store_vector(address + 16, own[i].high);
        }
      }
      continue;
    }
    if (task.num_sources > 1) load(1, next);
    float sums[kAtOnce][8] = {};
#pragma unroll
    for (uint32 i = 0; i < kAtOnce; ++i) add_eight_of<kWide>(task.from, own[i], sums[i]);
    if (task.map == MoverMap::swiglu) {
#pragma unroll
      for (uint32 i = 0; i < kAtOnce; ++i) {
        float values[8] = {};
        add_eight_of<kWide>(task.from, next[i], values);
#pragma unroll
        for (uint32 j = 0; j < 8; ++j) sums[i][j] = silu_of(sums[i][j]) * values[j];
      }
    } else {
#pragma unroll 1
      for (uint32 s = 1; s < task.num_sources; ++s) {
        if (s > 1) load(s, next);
#pragma unroll
        for (uint32 i = 0; i < kAtOnce; ++i) add_eight_of<kWide>(task.from, next[i], sums[i]);
      }
#pragma unroll
      for (uint32 i = 0; i < kAtOnce; ++i) map_eight(task.map, sums[i]);
    }
#pragma unroll 1
    for (uint32 d = 0; d < task.num_destinations; ++d) {
#pragma unroll
      for (uint32 i = 0; i < kAtOnce; ++i) {
        if (rows[i] == ~0u) continue;
        store_eight_of(address_in(to[d], rows[i], columns[i], task.to), task.to, sums[i]);
      }
    }
  }
}

// The sum over a block's threads, in one order.
STRETTO_DEVICE float sum_of_block(float value) {
  constexpr uint32 kWarps = kPassThreads / 32;
  __shared__ float of_warps[kWarps];
  value = sum_of_warp(value);
  __syncthreads();  // the row before has been read
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = value;
  __syncthreads();
  return sum_of_warp(threadIdx.x % 32 < kWarps ? of_warps[threadIdx.x % 32] : 0);
}

// Rows of a task that norms, each by a whole block, of which a thread has so many eights. A row is
// a few looks at memory one behind the other: where registers allow, weights are looked up once,
// and a row's first source while the row before is normed.
template <bool kWide, uint32 kEights>
STRETTO_DEVICE void pass_rows(const MoverTask& task, const MoverRegion* regions, Slice slice) {
  constexpr bool kAhead = !kWide && kEights <= 2;
  const MoverType to_type = kWide ? task.to : task.from;
  const MoverRegion* const to = regions + task.num_sources;
  const MoverRegion& scales = to[task.num_destinations];
  const uint32 first_normed = task.num_destinations - task.num_normed;
  const uint32 own = threadIdx.x * 8;
  const auto is_there = [&](uint32 i) { return own + i * kPassThreads * 8 < task.columns; };
  constexpr uint32 kAtOnce = kAhead ? kEights : kWide ? 1 : 2;
  const auto load = [&](uint32 s, uint32 row, uint32 first, PassEight<kWide>(&parts)[kAtOnce]) {
    const uint64 address = address_in(regions[s], row, own, task.from);
#pragma unroll
    for (uint32 i = 0; i < kAtOnce; ++i) {
      if (!is_there(first + i)) continue;
      load_eight_of<kWide>(address + (first + i) * kPassThreads * 8 * (kWide ? 4 : 2), parts[i]);
    }
  };
  PassEight<kWide> ahead[kAtOnce] = {};
  Vec16 weights[kAhead ? kEights : 1] = {};
  const bool has_weights = kAhead && task.weights != MoverType::fp32;
  if (kAhead && slice.index < task.rows) {
    load(0, slice.index, 0, ahead);
#pragma unroll
    for (uint32 i = 0; i < (kAhead ? kEights : 0); ++i) {
      if (!has_weights || !is_there(i)) continue;
      weights[i] = load_vector(address_in(scales, 0, own + i * kPassThreads * 8, task.weights));
    }
  }
#pragma unroll 1
  for (uint32 row = slice.index; row < task.rows; row += slice.count) {
    float sums[kEights][8] = {};
    const auto add = [&](uint32 first, const PassEight<kWide>(&parts)[kAtOnce]) {
#pragma unroll
      for (uint32 i = 0; i < kAtOnce; ++i)
        add_eight_of<kWide>(task.from, parts[i], sums[first + i]);
    };
    if constexpr (kAhead) {
      add(0, ahead);
      if (row + slice.count < task.rows) load(0, row + slice.count, 0, ahead);
#pragma unroll 1
      for (uint32 s = 1; s < task.num_sources; ++s) {
        PassEight<kWide> parts[kAtOnce] = {};
        load(s, row, 0, parts);
        add(0, parts);
      }
    } else {
#pragma unroll 1
      for (uint32 s = 0; s < task.num_sources; ++s) {
#pragma unroll
        for (uint32 first = 0; first < kEights; first += kAtOnce) {
          PassEight<kWide> parts[kAtOnce] = {};
          load(s, row, first, parts);
          add(first, parts);
        }
      }
    }
    const auto store = [&](uint32 from, uint32 end) {
#pragma unroll 1
      for (uint32 d = from; d < end; ++d) {
        const uint64 address = address_in(to[d], row, own, to_type);
#pragma unroll
        for (uint32 i = 0; i < kEights; ++i) {
          if (!is_there(i)) continue;
          store_eight_of(address + i * kPassThreads * 8 * bytes_of(to_type), to_type, sums[i]);
        }
      }
    };
    float squares = 0;
#pragma unroll
    for (uint32 i = 0; i < kEights; ++i) {
      widen_eight(to_type, round_eight(to_type, sums[i]), sums[i]);
#pragma unroll
      for (uint32 j = 0; j < 8; ++j) squares += sums[i][j] * sums[i][j];
    }
    store(0, first_normed);
    const float factor = norm_factor(sum_of_block(squares), task.columns, task.epsilon);
#pragma unroll
    for (uint32 i = 0; i < kEights; ++i) {
      if (!is_there(i)) continue;
      float values[8];
      if (has_weights) {
        widen_eight(task.weights, EightRounded{weights[kAhead ? i : 0], {}}, values);
      } else {
        load_eight(address_in(scales, 0, own + i * kPassThreads * 8, task.weights), task.weights,
                   values);
      }
#pragma unroll
      for (uint32 j = 0; j < 8; ++j) sums[i][j] *= factor * values[j];
    }
    store(first_normed, task.num_destinations);
  }
}

// A task that norms, or not.
template <bool kWide>
STRETTO_DEVICE void pass_task(const MoverTask& task, const MoverRegion* regions, Slice slice) {
  if (task.num_normed == 0) {
    if (task.num_sources != 0) pass_eights<kWide>(task, regions, slice);
  } else if (task.columns <= kPassThreads * 8) {
    pass_rows<kWide, 1>(task, regions, slice);
  } else if (task.columns <= kPassThreads * 16) {
    pass_rows<kWide, 2>(task, regions, slice);
  } else {
    pass_rows<kWide, kMostEights>(task, regions, slice);
  }
}

#endif  // STRETTO_DEVICE

}  // namespace stretto::device

// Movers: blocks that copy and reduce regions by ordinary loads and stores, driven by a task table.
//
// A block walks its own list of tasks in order: after a task's waits it loads each element of the
// sources once, adds sources in fp32 in the order listed, rounds once and stores to every
// destination, here or on a peer; then it makes the task's notifies. A task without regions only
// waits and notifies.
#pragma once

#include "stretto/device/signal.h"

namespace stretto::device {

// Moving threads of a block; two more warps await and notify for them.
inline constexpr uint32 kMovingThreads = 192;
inline constexpr uint32 kMoverThreads = kMovingThreads + 64;
inline constexpr uint32 kMaxRegions = 128;  // of one task

enum class MoverType : uint8 { bf16, fp16, fp32 };

// A rectangle's first element; its size is the task's.
struct MoverRegion {
  uint64 address;
  uint64 row_bytes;  // from one row to the next
};

struct MoverTask {
  uint32 rows, columns;
  uint32 first_region;  // sources, then destinations
  uint32 first_wait, first_notify;
  uint16 num_waits, num_notifies;
  uint16 num_sources, num_destinations;
  MoverType from, to;
  uint8 vectors;  // 1: rows and addresses are multiples of eight elements
  uint8 reserved;
  uint32 tile;  // named in errors
};

struct MoverParams {
  const uint32* first_task;  // by block, and one past the last block
  const MoverTask* tasks;
  const WaitEntry* waits;
  const NotifyEntry* notifies;
  const MoverRegion* regions;  // run e works on set e % region_sets of num_regions each
  SignalSpace signals;
  uint32 num_regions, region_sets;
};
static_assert(sizeof(MoverRegion) == 16 && sizeof(MoverTask) == 36 && sizeof(MoverParams) == 88);

#ifdef STRETTO_DEVICE

struct Vector16 {
  uint32 word[4];
};

STRETTO_DEVICE Vector16 load_vector(uint64 address) {
  Vector16 v;
  asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3])
               : "l"(address)
               : "memory");
  return v;
}

STRETTO_DEVICE void store_vector(uint64 address, const Vector16& v) {
  asm volatile("st.global.L1::no_allocate.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(address),
               "r"(v.word[0]), "r"(v.word[1]), "r"(v.word[2]), "r"(v.word[3])
               : "memory");
}

STRETTO_DEVICE float widen_half(MoverType type, uint32 bits) {
  if (type == MoverType::bf16) return __uint_as_float(bits << 16);
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(static_cast<uint16>(bits)));
  return value;
}

STRETTO_DEVICE uint32 round_half(MoverType type, float value) {
  uint16 bits;
  if (type == MoverType::bf16) {
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  } else {
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  }
  return bits;
}

STRETTO_DEVICE uint32 bytes_of(MoverType type) { return type == MoverType::fp32 ? 4 : 2; }

// Eight elements, all their loads before the first use.
struct EightLoaded {
  Vector16 low, high;
};
STRETTO_DEVICE EightLoaded load_eight(MoverType type, uint64 address) {
  EightLoaded loaded;
  loaded.low = load_vector(address);
  if (type == MoverType::fp32) loaded.high = load_vector(address + 16);
  return loaded;
}
STRETTO_DEVICE void add_eight(MoverType type, const EightLoaded& loaded, float (&sums)[8]) {
#pragma unroll
  for (int32 i = 0; i < 4; ++i) {
    if (type == MoverType::fp32) {
      sums[i] += __uint_as_float(loaded.low.word[i]);
      sums[i + 4] += __uint_as_float(loaded.high.word[i]);
    } else {
      sums[2 * i] += widen_half(type, loaded.low.word[i] & 0xffff);
      sums[2 * i + 1] += widen_half(type, loaded.low.word[i] >> 16);
    }
  }
}
STRETTO_DEVICE void store_eight(MoverType type, uint64 address, const float (&values)[8]) {
  Vector16 low, high;
#pragma unroll
  for (int32 i = 0; i < 4; ++i) {
    if (type == MoverType::fp32) {
      low.word[i] = __float_as_uint(values[i]);
      high.word[i] = __float_as_uint(values[i + 4]);
    } else {
      low.word[i] = round_half(type, values[2 * i]) | round_half(type, values[2 * i + 1]) << 16;
    }
  }
  store_vector(address, low);
  if (type == MoverType::fp32) store_vector(address + 16, high);
}

// Sixteen bytes a thread and step, kAtOnce steps in flight.
STRETTO_DEVICE void move_copy(const MoverTask& task, const MoverRegion* regions) {
  constexpr uint32 kAtOnce = 16;
  const uint32 across = task.columns * bytes_of(task.from) / 16;
  const uint32 total = task.rows * across;
  const MoverRegion source = regions[0];

  for (uint32 first = threadIdx.x; first < total; first += kAtOnce * kMovingThreads) {
    Vector16 held[kAtOnce];
    uint32 row[kAtOnce], offset[kAtOnce];
#pragma unroll
    for (uint32 i = 0; i < kAtOnce; ++i) {
      const uint32 at = first + i * kMovingThreads;
      row[i] = at / across;
      offset[i] = at % across * 16;
      if (at < total) held[i] = load_vector(source.address + row[i] * source.row_bytes + offset[i]);
    }

    for (uint32 d = 0; d < task.num_destinations; ++d) {
      const MoverRegion to = regions[1 + d];
#pragma unroll
      for (uint32 i = 0; i < kAtOnce; ++i) {
        if (first + i * kMovingThreads < total) {
          store_vector(to.address + row[i] * to.row_bytes + offset[i], held[i]);
        }
      }
    }
  }
}

// Eight elements a thread and step, of kAtOnce steps and two sources in flight.
template <MoverType kFrom>
STRETTO_DEVICE void move_sum(const MoverTask& task, const MoverRegion* regions) {
  constexpr uint32 kAtOnce = kFrom == MoverType::fp32 ? 2 : 4;
  const uint32 across = task.columns / 8;
  const uint32 total = task.rows * across;
  const uint32 to_bytes = 8 * bytes_of(task.to);

  for (uint32 first = threadIdx.x; first < total; first += kAtOnce * kMovingThreads) {
    float sums[kAtOnce][8] = {};
    uint32 row[kAtOnce], group[kAtOnce];
#pragma unroll
    for (uint32 i = 0; i < kAtOnce; ++i) {
      row[i] = (first + i * kMovingThreads) / across;
      group[i] = (first + i * kMovingThreads) % across;
    }

    for (uint32 s = 0; s < task.num_sources; s += 2) {
      const bool has_second = s + 1 < task.num_sources;
      const MoverRegion one = regions[s], two = regions[has_second ? s + 1 : s];
      EightLoaded first_loaded[kAtOnce], second_loaded[kAtOnce];
#pragma unroll
      for (uint32 i = 0; i < kAtOnce; ++i) {
        if (first + i * kMovingThreads >= total) continue;
        const uint64 offset = group[i] * (8 * bytes_of(kFrom));
        first_loaded[i] = load_eight(kFrom, one.address + row[i] * one.row_bytes + offset);
        if (has_second) {
          second_loaded[i] = load_eight(kFrom, two.address + row[i] * two.row_bytes + offset);
        }
      }
#pragma unroll
      for (uint32 i = 0; i < kAtOnce; ++i) {
        add_eight(kFrom, first_loaded[i], sums[i]);
        if (has_second) add_eight(kFrom, second_loaded[i], sums[i]);
      }
    }

    for (uint32 d = 0; d < task.num_destinations; ++d) {
      const MoverRegion to = regions[task.num_sources + d];
#pragma unroll
      for (uint32 i = 0; i < kAtOnce; ++i) {
        if (first + i * kMovingThreads < total) {
          store_eight(task.to, to.address + row[i] * to.row_bytes + group[i] * to_bytes, sums[i]);
        }
      }
    }
  }
}

// Any width and alignment of elements.
STRETTO_DEVICE void move_elements(const MoverTask& task, const MoverRegion* regions) {
  for (uint32 at = threadIdx.x; at < task.rows * task.columns; at += kMovingThreads) {
    const uint32 row = at / task.columns, column = at % task.columns;
    float sum = 0;
    for (uint32 s = 0; s < task.num_sources; ++s) {
      const uint64 address =
          regions[s].address + row * regions[s].row_bytes + column * bytes_of(task.from);
      sum += task.from == MoverType::fp32
                 ? *reinterpret_cast<const float*>(address)
                 : widen_half(task.from, *reinterpret_cast<const uint16*>(address));
    }

    for (uint32 d = 0; d < task.num_destinations; ++d) {
      const MoverRegion& to = regions[task.num_sources + d];
      const uint64 address = to.address + row * to.row_bytes + column * bytes_of(task.to);
      if (task.to == MoverType::fp32) {
        *reinterpret_cast<float*>(address) = sum;
      } else {
        *reinterpret_cast<uint16*>(address) = static_cast<uint16>(round_half(task.to, sum));
      }
    }
  }
}

STRETTO_DEVICE void sync_moving_threads() {
  asm volatile("barrier.cta.sync 1, %0;" ::"n"(kMovingThreads) : "memory");
}

// By kMovingThreads threads: the tasks' data, each task once its signals have come.
STRETTO_DEVICE void move_tasks(const MoverParams& params, uint64 epoch, uint32 begin, uint32 end,
                               uint32 ready, uint32 done) {
  // A task's regions are kept here: every wait empties the SM's cache of global memory.
  __shared__ MoverRegion regions[kMaxRegions];
  const MoverRegion* set = params.regions + epoch % params.region_sets * params.num_regions;
  for (uint32 t = begin; t < end; ++t) {
    const MoverTask task = params.tasks[t];
    const uint32 num_regions = task.num_sources + task.num_destinations;
    sync_moving_threads();
    if (threadIdx.x < num_regions) regions[threadIdx.x] = set[task.first_region + threadIdx.x];
    sync_moving_threads();
    if (task.num_waits != 0) {
      while (load_acquire_shared(ready) <= t - begin) {
      }
    }
    if (!task.vectors) {
      move_elements(task, regions);
    } else if (task.num_sources == 1 && task.from == task.to) {
      move_copy(task, regions);
    } else if (task.from == MoverType::bf16) {
      move_sum<MoverType::bf16>(task, regions);
    } else if (task.from == MoverType::fp16) {
      move_sum<MoverType::fp16>(task, regions);
    } else {
      move_sum<MoverType::fp32>(task, regions);
    }
    if (task.num_notifies != 0) {
      sync_moving_threads();
      if (threadIdx.x == 0) store_release_shared(done, t - begin + 1);
    }
  }
}

// By one warp, ahead of the moving threads.
STRETTO_DEVICE void await_tasks(const MoverParams& params, uint64 epoch, uint32 begin, uint32 end,
                                uint32 ready) {
  for (uint32 t = begin; t < end; ++t) {
    const MoverTask& task = params.tasks[t];
    if (task.num_waits == 0) continue;
    wait_signals(params.signals, epoch, params.waits + task.first_wait, task.num_waits,
                 kMoverLane | blockIdx.x, task.tile);
    if (threadIdx.x % 32 == 0) store_release_shared(ready, t - begin + 1);
  }
}

// By one thread, behind the moving threads, which need not pause while a release drains.
STRETTO_DEVICE void notify_tasks(const MoverParams& params, uint64 epoch, uint32 begin, uint32 end,
                                 uint32 done) {
  for (uint32 t = begin; t < end; ++t) {
    const MoverTask& task = params.tasks[t];
    if (task.num_notifies == 0) continue;
    while (load_acquire_shared(done) <= t - begin) {
    }
    for (uint32 n = 0; n < task.num_notifies; ++n) {
      notify_signal(params.signals, epoch, params.notifies[task.first_notify + n]);
    }
  }
}

STRETTO_DEVICE void run_mover(const MoverParams& params) {
  __shared__ uint32 counts[2];
  const uint32 ready = shared_address(&counts[0]), done = shared_address(&counts[1]);
  const uint64 epoch = params.signals.control->epoch;
  const uint32 begin = params.first_task[blockIdx.x], end = params.first_task[blockIdx.x + 1];
  if (threadIdx.x < 2) counts[threadIdx.x] = 0;
  __syncthreads();
  if (threadIdx.x < kMovingThreads) {
    move_tasks(params, epoch, begin, end, ready, done);
  } else if (threadIdx.x < kMovingThreads + 32) {
    await_tasks(params, epoch, begin, end, ready);
  } else if (threadIdx.x == kMovingThreads + 32) {
    notify_tasks(params, epoch, begin, end, done);
  }
}

#endif  // STRETTO_DEVICE

}  // namespace stretto::device

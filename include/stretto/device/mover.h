// Movers: blocks that copy and reduce regions, driven by a task table (mover_task.h).
//
//   load warps   bring the sources, 16 KB at a time, into a ring of stages by TMA
//   add warps    sum the stages of reductions in fp32 and store the sums to every destination
//   wait warp    awaits the signals of task after task, ahead of the loads
//   store warp   sends the stages of copies to every destination by TMA; makes all notifies
//
// Nothing but stores separates one task from the next: loads run ahead by the whole ring, and a
// release drains while later tasks move.
#pragma once

#include "stretto/device/mover_task.h"
#ifdef STRETTO_DEVICE
#include "stretto/device/ptx_barrier.h"
#include "stretto/device/ptx_tma.h"
#endif

namespace stretto::device {

#ifdef STRETTO_DEVICE

struct Vector16 {
  uint32 word[4];
};

STRETTO_DEVICE Vector16 load_shared_vector(uint32 address) {
  Vector16 v;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3])
               : "r"(address)
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

STRETTO_DEVICE constexpr uint32 bytes_of(MoverType type) { return type == MoverType::fp32 ? 4 : 2; }

// How a task passes through the ring: piece by piece, a stage for each source of a piece.
struct MoverPieces {
  uint32 rows = 0, columns = 0;  // of a full piece
  uint32 across = 0, count = 0;

  STRETTO_DEVICE explicit MoverPieces(const MoverTask& task) {
    if (!task.vectors || task.num_sources == 0) return;
    const uint32 room = kStageBytes / bytes_of(task.from);
    columns = task.columns < room ? task.columns : room;
    rows = room / columns;
    across = (task.columns + columns - 1) / columns;
    count = across * ((task.rows + rows - 1) / rows);
  }
};

struct MoverPiece {
  uint32 row, column, rows, columns;

  STRETTO_DEVICE MoverPiece(const MoverTask& task, const MoverPieces& pieces, uint32 index) {
    row = index / pieces.across * pieces.rows;
    column = index % pieces.across * pieces.columns;
    rows = task.rows - row < pieces.rows ? task.rows - row : pieces.rows;
    columns = task.columns - column < pieces.columns ? task.columns - column : pieces.columns;
  }
};

STRETTO_DEVICE bool is_copy(const MoverTask& task) {
  return task.vectors && task.num_sources == 1 && task.from == task.to;
}

// Shared-memory addresses of one block.
struct MoverShared {
  uint32 stages, full, empty;
  uint32 ready;      // tasks whose signals have come
  uint32 added;      // kAddWarps times the tasks that the add warps are past
  uint32 completed;  // tasks whose stores and notifies are done; a lower bound

  STRETTO_DEVICE explicit MoverShared(uint32 base) {
    stages = base;
    full = stages + kMoverStages * kStageBytes;
    empty = full + kMoverStages * 8;
    ready = empty + kMoverStages * 8;
    added = ready + 4;
    completed = added + 4;
  }
  STRETTO_DEVICE void init() const {
    for (uint32 i = 0; i < kMoverStages; ++i) {
      barrier_init(full + i * 8, kLoadWarps);
      barrier_init(empty + i * 8, kAddWarps);
    }
    store_release_shared(ready, 0);
    store_release_shared(added, 0);
    store_release_shared(completed, 0);
    fence_barrier_init();
  }
};

STRETTO_DEVICE void await_count(uint32 address, uint32 count) {
  while (static_cast<int32>(load_acquire_shared(address) - count) < 0) {
  }
}

// The tasks of a block one after the other, fetched ahead: every wait empties the SM's cache, so a
// look at the table takes a microsecond. Lane i of the warp holds region i of the task's sources or
// destinations.
class TaskWalk {
 public:
  STRETTO_DEVICE TaskWalk(const MoverParams& params, uint64 epoch, uint32 end, bool destinations)
      : params_(params),
        regions_(params.regions + epoch % params.region_sets * params.num_regions),
        at_(params.first_task[blockIdx.x]),
        end_(end),
        destinations_(destinations) {
    if (at_ < end_) task_ = params_.tasks[at_];
    if (at_ + 1 < end_) next_ = params_.tasks[at_ + 1];
    region_ = region_of(task_, threadIdx.x % 32);
    fetch();
  }
  STRETTO_DEVICE bool done() const { return at_ == end_; }
  STRETTO_DEVICE void advance() {
    ++at_;
    task_ = next_;
    region_ = next_region_;
    next_ = after_;
    fetch();
  }
  STRETTO_DEVICE const MoverTask& task() const { return task_; }
  // By the whole warp, the same `index`.
  STRETTO_DEVICE MoverRegion region(uint32 index) const {
    if (index >= 32) return region_of(task_, index);
    return {__shfl_sync(0xffffffffu, region_.address, static_cast<int>(index)),
            __shfl_sync(0xffffffffu, region_.row_bytes, static_cast<int>(index))};
  }

 private:
  STRETTO_DEVICE void fetch() {
    next_region_ = region_of(next_, threadIdx.x % 32);
    if (at_ + 2 < end_) after_ = params_.tasks[at_ + 2];
  }
  STRETTO_DEVICE MoverRegion region_of(const MoverTask& task, uint32 index) const {
    if (index >= (destinations_ ? task.num_destinations : task.num_sources)) return {};
    return regions_[task.first_region + (destinations_ ? task.num_sources : 0) + index];
  }

  const MoverParams& params_;
  const MoverRegion* regions_;
  uint32 at_, end_;
  bool destinations_;
  MoverTask task_{}, next_{}, after_{};
  MoverRegion region_{}, next_region_{};
};

// What all warps of a block know.
struct MoverBlock {
  const MoverParams& params;
  MoverShared shared;
  uint64 epoch;
  uint32 begin, end;
};

// By one warp, ahead of all others.
STRETTO_DEVICE void await_tasks(const MoverBlock& block) {
  const MoverParams& params = block.params;
  for (uint32 t = block.begin; t < block.end; ++t) {
    const MoverTask& task = params.tasks[t];
    if (task.num_waits != 0) {
      wait_signals(params.signals, block.epoch, params.waits + task.first_wait, task.num_waits,
                   kMoverLane | blockIdx.x, task.tile);
    }
    if (threadIdx.x % 32 == 0) store_release_shared(block.shared.ready, t - block.begin + 1);
  }
}

// By kLoadWarps warps, which share the rows of every piece.
STRETTO_DEVICE void load_tasks(const MoverBlock& block, uint32 warp) {
  const MoverShared& shared = block.shared;
  const uint32 lane = threadIdx.x % 32;
  RingPosition ring{0, 1};
  uint32 passed = 0;
  for (TaskWalk walk(block.params, block.epoch, block.end, false); !walk.done(); walk.advance()) {
    const MoverTask& task = walk.task();
    await_count(shared.ready, passed + 1);
    if (task.drains) await_count(shared.completed, passed);
    if (task.num_waits != 0 || task.drains) fence_proxy_async();
    ++passed;

    const MoverPieces pieces(task);
    const uint32 size = bytes_of(task.from);
    for (uint32 p = 0; p < pieces.count; ++p) {
      const MoverPiece piece(task, pieces, p);
      const uint32 row_bytes = piece.columns * size;
      for (uint32 s = 0; s < task.num_sources; ++s) {
        const MoverRegion from = walk.region(s);
        const uint32 stage = shared.stages + ring.slot * kStageBytes;
        const uint32 full = shared.full + ring.slot * 8;
        barrier_wait(shared.empty + ring.slot * 8, ring.parity);
        if (lane == 0) {
          const uint32 rows = (piece.rows + kLoadWarps - 1 - warp) / kLoadWarps;
          barrier_arrive_expect(full, rows * row_bytes);
        }
        for (uint32 row = warp + lane * kLoadWarps; row < piece.rows; row += 32 * kLoadWarps) {
          bulk_load(stage + row * row_bytes,
                    from.address + (piece.row + row) * from.row_bytes + piece.column * size,
                    row_bytes, full);
        }
        ring.advance<kMoverStages>();
      }
    }
  }
}

// A thread's share of a stage of kFrom: kVectors times eight elements.
template <MoverType kFrom>
inline constexpr uint32 kVectors = kStageBytes / (8 * bytes_of(kFrom) * kAddWarps * 32);

template <MoverType kFrom>
STRETTO_DEVICE void add_stage(uint32 stage, uint32 total, float (&sums)[kVectors<kFrom>][8]) {
#pragma unroll
  for (uint32 i = 0; i < kVectors<kFrom>; ++i) {
    const uint32 at = threadIdx.x + i * kAddWarps * 32;
    if (at >= total) continue;
    if constexpr (kFrom == MoverType::fp32) {
      const Vector16 low = load_shared_vector(stage + at * 32);
      const Vector16 high = load_shared_vector(stage + at * 32 + 16);
#pragma unroll
      for (int32 j = 0; j < 4; ++j) {
        sums[i][j] += __uint_as_float(low.word[j]);
        sums[i][j + 4] += __uint_as_float(high.word[j]);
      }
    } else {
      const Vector16 loaded = load_shared_vector(stage + at * 16);
#pragma unroll
      for (int32 j = 0; j < 4; ++j) {
        sums[i][2 * j] += widen_half(kFrom, loaded.word[j] & 0xffff);
        sums[i][2 * j + 1] += kFrom == MoverType::bf16
                                  ? __uint_as_float(loaded.word[j] & 0xffff0000)
                                  : widen_half(kFrom, loaded.word[j] >> 16);
      }
    }
  }
}

struct EightRounded {
  Vector16 low, high;  // 16-bit types fill `low` only
};
STRETTO_DEVICE EightRounded round_eight(MoverType type, const float (&values)[8]) {
  EightRounded rounded{};
#pragma unroll
  for (int32 i = 0; i < 4; ++i) {
    if (type == MoverType::fp32) {
      rounded.low.word[i] = __float_as_uint(values[i]);
      rounded.high.word[i] = __float_as_uint(values[i + 4]);
    } else {
      rounded.low.word[i] = round_half(type, values[2 * i]) | round_half(type, values[2 * i + 1])
                                                                  << 16;
    }
  }
  return rounded;
}

// By all add warps: the sums of a task's pieces, stored to every destination.
template <MoverType kFrom>
STRETTO_DEVICE void add_task(const MoverShared& shared, const TaskWalk& walk, RingPosition& ring) {
  const MoverTask& task = walk.task();
  const MoverPieces pieces(task);
  const uint32 to_bytes = 8 * bytes_of(task.to);
  for (uint32 p = 0; p < pieces.count; ++p) {
    const MoverPiece piece(task, pieces, p);
    const uint32 across = piece.columns / 8;
    const uint32 total = piece.rows * across;
    float sums[kVectors<kFrom>][8] = {};
    for (uint32 s = 0; s < task.num_sources; ++s) {
      barrier_wait(shared.full + ring.slot * 8, ring.parity);
      add_stage<kFrom>(shared.stages + ring.slot * kStageBytes, total, sums);
      __syncwarp();
      if (threadIdx.x % 32 == 0) barrier_arrive(shared.empty + ring.slot * 8);
      ring.advance<kMoverStages>();
    }

    EightRounded rounded[kVectors<kFrom>];
#pragma unroll
    for (uint32 i = 0; i < kVectors<kFrom>; ++i) rounded[i] = round_eight(task.to, sums[i]);
    for (uint32 d = 0; d < task.num_destinations; ++d) {
      const MoverRegion to = walk.region(d);
#pragma unroll
      for (uint32 i = 0; i < kVectors<kFrom>; ++i) {
        const uint32 at = threadIdx.x + i * kAddWarps * 32;
        if (at >= total) continue;
        const uint64 address = to.address + (piece.row + at / across) * to.row_bytes +
                               piece.column * bytes_of(task.to) + at % across * to_bytes;
        store_vector(address, rounded[i].low);
        if (task.to == MoverType::fp32) store_vector(address + 16, rounded[i].high);
      }
    }
  }
}

// By all add warps, without the ring: any width and alignment of elements.
STRETTO_DEVICE void move_elements(const MoverTask& task, const MoverRegion* regions) {
  for (uint32 at = threadIdx.x; at < task.rows * task.columns; at += kAddWarps * 32) {
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

// By kAddWarps warps.
STRETTO_DEVICE void add_tasks(const MoverBlock& block) {
  const MoverParams& params = block.params;
  const MoverRegion* regions =
      params.regions + block.epoch % params.region_sets * params.num_regions;
  RingPosition ring;
  uint32 passed = 0;
  for (TaskWalk walk(params, block.epoch, block.end, true); !walk.done(); walk.advance()) {
    const MoverTask& task = walk.task();
    if (is_copy(task)) {
      ring.advance_by<kMoverStages>(MoverPieces(task).count);
    } else if (!task.vectors) {
      await_count(block.shared.ready, passed + 1);
      if (task.drains) await_count(block.shared.completed, passed);
      move_elements(task, regions + task.first_region);
    } else if (task.from == MoverType::bf16) {
      add_task<MoverType::bf16>(block.shared, walk, ring);
    } else if (task.from == MoverType::fp16) {
      add_task<MoverType::fp16>(block.shared, walk, ring);
    } else {
      add_task<MoverType::fp32>(block.shared, walk, ring);
    }
    ++passed;
    __syncwarp();
    if (threadIdx.x % 32 == 0) add_release_shared(block.shared.added, 1);
  }
}

// Notifies for the tasks of a block in order, by the warp that stores.
class TaskNotifier {
 public:
  STRETTO_DEVICE explicit TaskNotifier(const MoverBlock& block)
      : block_(block), next_(block.begin) {}

  STRETTO_DEVICE uint32 next() const { return next_; }
  // For all tasks before `end`. This thread's stores for them must be complete.
  STRETTO_DEVICE void notify_until(uint32 end) {
    if (next_ == end) return;
    await_count(block_.shared.added, (end - block_.begin) * kAddWarps);
    __syncwarp();
    for (; next_ != end; ++next_) {
      const MoverTask& task = block_.params.tasks[next_];
      for (uint32 n = threadIdx.x % 32; n < task.num_notifies; n += 32) {
        notify_signal(block_.params.signals, block_.epoch,
                      block_.params.notifies[task.first_notify + n]);
      }
    }
    if (threadIdx.x % 32 == 0) store_release_shared(block_.shared.completed, end - block_.begin);
  }

 private:
  const MoverBlock& block_;
  uint32 next_;
};

// By one warp. Copies leave by bulk stores, a group of stores a stage in every lane; the notifies
// of a task follow once kTrailing more stages are on their way, or none are left to send.
STRETTO_DEVICE void store_tasks(const MoverBlock& block) {
  constexpr uint32 kTrailing = 4;
  constexpr int kReading = 3;  // groups whose shared memory may still be read
  const MoverShared& shared = block.shared;
  const uint32 lane = threadIdx.x % 32;
  TaskNotifier notifier(block);
  RingPosition ring, unread;
  uint32 num_unread = 0;
  uint32 sent = 0;                                 // stages
  uint32 batch_end = block.begin, batch_sent = 0;  // tasks to notify for next, and their stages
  const auto free_stage = [&] {
    __syncwarp();
    if (lane == 0) barrier_arrive_many(shared.empty + unread.slot * 8, kAddWarps);
    unread.advance<kMoverStages>();
    --num_unread;
  };
  // All stores of the tasks before t, then their notifies.
  const auto finish_until = [&](uint32 t) {
    tma_store_wait<0>();
    while (num_unread != 0) free_stage();
    notifier.notify_until(t);
    batch_end = t;
    batch_sent = sent;
  };

  uint32 t = block.begin;
  for (TaskWalk walk(block.params, block.epoch, block.end, true); !walk.done(); walk.advance()) {
    const MoverTask& task = walk.task();
    const MoverPieces pieces(task);
    if (task.drains) finish_until(t);
    if (!is_copy(task)) {
      finish_until(t);
      await_count(shared.ready, t - block.begin + 1);
      ring.advance_by<kMoverStages>(pieces.count * task.num_sources);
      unread = ring;
      finish_until(++t);
      continue;
    }

    const uint32 size = bytes_of(task.from);
    for (uint32 p = 0; p < pieces.count; ++p) {
      const MoverPiece piece(task, pieces, p);
      const uint32 full = shared.full + ring.slot * 8;
      if (notifier.next() != t && !__any_sync(0xffffffffu, barrier_test(full, ring.parity))) {
        finish_until(t);
      }
      barrier_wait(full, ring.parity);
      if (p == 0) await_count(shared.ready, t - block.begin + 1);
      const uint32 stage = shared.stages + ring.slot * kStageBytes;
      const uint32 row_bytes = piece.columns * size;
      for (uint32 d = 0; d < task.num_destinations; ++d) {
        const MoverRegion to = walk.region(d);
        for (uint32 row = lane; row < piece.rows; row += 32) {
          bulk_store(to.address + (piece.row + row) * to.row_bytes + piece.column * size,
                     stage + row * row_bytes, row_bytes);
        }
      }
      tma_store_commit();
      ring.advance<kMoverStages>();
      ++sent;
      if (++num_unread > kReading) {
        tma_store_wait_read<kReading>();
        free_stage();
      }
      if (notifier.next() != batch_end && sent - batch_sent >= kTrailing) {
        tma_store_wait<kTrailing>();
        notifier.notify_until(batch_end);
      }
    }
    ++t;
    if (notifier.next() == batch_end) {
      batch_end = t;
      batch_sent = sent;
    }
  }
  finish_until(t);
}

STRETTO_DEVICE void run_mover(const MoverParams& params) {
  extern __shared__ uint8 shared_memory[];
  const uint32 warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0);
  const MoverBlock block{params, MoverShared(shared_address(shared_memory)),
                         params.signals.control->epoch, params.first_task[blockIdx.x],
                         params.first_task[blockIdx.x + 1]};
  if (threadIdx.x == 0) block.shared.init();
  __syncthreads();
  if (warp < kAddWarps) {
    add_tasks(block);
  } else if (warp < kAddWarps + kLoadWarps) {
    load_tasks(block, warp - kAddWarps);
  } else if (warp == kAddWarps + kLoadWarps) {
    await_tasks(block);
  } else {
    store_tasks(block);
  }
}

#endif  // STRETTO_DEVICE

}  // namespace stretto::device

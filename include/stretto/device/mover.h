// Movers: blocks that copy and reduce regions, driven by a task table (mover_task.h).
//
//   wait warp     awaits the signals of task after task, ahead of the loads
//   load warps    bring the sources, 16 KB at a time, into a ring of stages by TMA, in turn
//   add groups    of 8 warps sum the stages of reductions in fp32 and store to every destination;
//                 they take pieces in turn
//   store warps   send the stages of copies to every destination by TMA, in turn
//   notify warp   makes the notifies of task after task, behind all others
//
// Nothing separates one task from the next: loads run ahead by the whole ring, and a release drains
// while later tasks move.
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
  uint32 count = 0;

  STRETTO_DEVICE explicit MoverPieces(const MoverTask& task) {
    if (!task.vectors || task.num_sources == 0) return;
    const uint32 room = kStageBytes / bytes_of(task.from);
    columns = task.columns < room ? task.columns : room;
    rows = room / columns;
    count = (task.columns + columns - 1) / columns * ((task.rows + rows - 1) / rows);
  }
};

// The pieces of a task one after the other, row of pieces by row of pieces.
struct MoverPiece {
  uint32 row = 0, column = 0, rows, columns;

  STRETTO_DEVICE MoverPiece(const MoverTask& task, const MoverPieces& pieces) { fit(task, pieces); }
  STRETTO_DEVICE void advance(const MoverTask& task, const MoverPieces& pieces) {
    column += pieces.columns;
    if (column >= task.columns) {
      column = 0;
      row += pieces.rows;
    }
    fit(task, pieces);
  }

 private:
  STRETTO_DEVICE void fit(const MoverTask& task, const MoverPieces& pieces) {
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
  uint32 added;      // the sum over add warps of the tasks that each is past
  uint32 stored;     // by store warp: tasks whose copies it has completed
  uint32 completed;  // tasks whose notifies are made

  STRETTO_DEVICE explicit MoverShared(uint32 base) {
    stages = base;
    full = stages + kMoverStages * kStageBytes;
    empty = full + kMoverStages * 8;
    ready = empty + kMoverStages * 8;
    added = ready + 4;
    completed = added + 4;
    stored = completed + 4;
  }
  STRETTO_DEVICE void init() const {
    for (uint32 i = 0; i < kMoverStages; ++i) {
      barrier_init(full + i * 8, 32);
      barrier_init(empty + i * 8, kGroupWarps);
    }
    for (uint32 at = ready; at < stored + kStoreWarps * 4; at += 4) store_release_shared(at, 0);
    fence_barrier_init();
  }
};

STRETTO_DEVICE void await_count(uint32 address, uint32 count) {
  while (static_cast<int32>(load_acquire_shared(address) - count) < 0) {
  }
}

// What all warps of a block know.
struct MoverBlock {
  const MoverParams& params;
  MoverShared shared;
  RunRows run;
  uint64 epoch;
  uint32 begin, end;
};

// The tasks of a block one after the other. Every wait empties the SM's cache, so a look at a table
// takes half a microsecond: the next task is fetched ahead, and lane i of the warp holds region i
// of the task's sources or destinations.
class TaskWalk {
 public:
  STRETTO_DEVICE TaskWalk(const MoverBlock& block, bool destinations)
      : params_(block.params),
        run_(block.run),
        regions_(params_.regions + block.epoch % params_.region_sets * params_.num_regions),
        at_(block.begin),
        end_(block.end),
        destinations_(destinations) {
    if (at_ < end_) next_ = params_.tasks[at_];
    fetch();
  }
  STRETTO_DEVICE bool done() const { return at_ == end_; }
  STRETTO_DEVICE void advance() {
    ++at_;
    fetch();
  }
  STRETTO_DEVICE const MoverTask& task() const { return task_; }
  // By the whole warp, the same `index`.
  STRETTO_DEVICE MoverRegion region(uint32 index) const {
    if (index >= 32) return region_of(index);
    return {__shfl_sync(0xffffffffu, region_.address, static_cast<int>(index)),
            __shfl_sync(0xffffffffu, region_.row_bytes, static_cast<int>(index))};
  }

 private:
  STRETTO_DEVICE void leave_out_rows() {
    const TaskRows& from = task_.rows_from;
    task_.rows =
        static_cast<uint32>(run_.present(from.owner, from.first, static_cast<int32>(task_.rows)));
    if (task_.rows == 0) {
      task_.num_sources = task_.num_destinations = 0;
    } else if ((from.flags & kRowsAreSolid) != 0) {  // as one row
      task_.columns *= task_.rows;
      task_.rows = 1;
    }
  }
  STRETTO_DEVICE void fetch() {
    task_ = next_;
    if (run_.block != 0) leave_out_rows();
    region_ = region_of(threadIdx.x % 32);
    if (at_ + 1 < end_) next_ = params_.tasks[at_ + 1];
  }
  STRETTO_DEVICE MoverRegion region_of(uint32 index) const {
    if (index >= (destinations_ ? task_.num_destinations : task_.num_sources)) return {};
    return regions_[task_.first_region + (destinations_ ? task_.num_sources : 0) + index];
  }

  const MoverParams& params_;
  const RunRows& run_;
  const MoverRegion* regions_;
  uint32 at_, end_;
  bool destinations_;
  MoverTask task_{}, next_{};
  MoverRegion region_{};
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

// A piece into a stage, by one warp, whose lanes all arrive at `full`. Rows that do not follow on
// one another go by ordinary asynchronous copies when they are to be added: TMA is slow at short
// rows, but only what TMA brought may leave by TMA.
STRETTO_DEVICE void load_piece(const MoverTask& task, const MoverPiece& piece,
                               const MoverRegion& from, uint32 stage, uint32 full) {
  const uint32 lane = threadIdx.x % 32;
  const uint32 size = bytes_of(task.from);
  const uint32 row_bytes = piece.columns * size;
  const uint64 first = from.address + piece.row * from.row_bytes + piece.column * size;
  const bool solid = piece.rows == 1 || from.row_bytes == row_bytes;
  if (solid || is_copy(task)) {
    fence_proxy_async_shared();  // ordinary copies may have filled the stage before
    if (lane == 0) {
      barrier_arrive_expect(full, piece.rows * row_bytes);
    } else {
      barrier_arrive(full);
    }
    if (solid) {
      if (lane == 0) bulk_load(stage, first, piece.rows * row_bytes, full);
      return;
    }
#pragma unroll 1
    for (uint32 row = lane; row < piece.rows; row += 32) {
      bulk_load(stage + row * row_bytes, first + row * from.row_bytes, row_bytes, full);
    }
    return;
  }

  const uint32 across = row_bytes / 16;
  if (across % 32 == 0) {
    for (uint32 column = lane * 16; column < row_bytes; column += 32 * 16) {
#pragma unroll 8
      for (uint32 row = 0; row < piece.rows; ++row) {
        copy_async(stage + row * row_bytes + column, first + row * from.row_bytes + column);
      }
    }
  } else {
#pragma unroll 1
    for (uint32 at = lane; at < piece.rows * across; at += 32) {
      copy_async(stage + at * 16, first + at / across * from.row_bytes + at % across * 16);
    }
  }
  barrier_arrive_after_copies(full);
}

// By kLoadWarps warps, which fill stages in turn.
STRETTO_DEVICE void load_tasks(const MoverBlock& block, uint32 warp) {
  const MoverShared& shared = block.shared;
  RingPosition ring{0, 1};
  uint32 turn = kLoadWarps - warp;  // stages until this warp's, after the first
  uint32 passed = 0;
  for (TaskWalk walk(block, false); !walk.done(); walk.advance()) {
    const MoverTask& task = walk.task();
    await_count(shared.ready, passed + 1);
    if (task.drains) await_count(shared.completed, passed);
    if (task.num_waits != 0 || task.drains) fence_proxy_async();
    ++passed;

    const MoverPieces pieces(task);
    MoverPiece piece(task, pieces);
    for (uint32 p = 0; p < pieces.count; ++p, piece.advance(task, pieces)) {
      for (uint32 s = 0; s < task.num_sources; ++s) {
        if (turn % kLoadWarps == 0) {
          const MoverRegion from = walk.region(s);
          barrier_wait(shared.empty + ring.slot * 8, ring.parity);
          load_piece(task, piece, from, shared.stages + ring.slot * kStageBytes,
                     shared.full + ring.slot * 8);
        }
        ++turn;
        ring.advance<kMoverStages>();
      }
    }
  }
}

// A thread's share of a stage of kFrom: kVectors times eight elements.
template <MoverType kFrom>
inline constexpr uint32 kVectors = kStageBytes / (8 * bytes_of(kFrom) * kGroupWarps * 32);

template <MoverType kFrom>
STRETTO_DEVICE void add_eight(const Vector16& low, const Vector16& high, float (&sums)[8]) {
#pragma unroll
  for (int32 j = 0; j < 4; ++j) {
    if constexpr (kFrom == MoverType::fp32) {
      sums[j] += __uint_as_float(low.word[j]);
      sums[j + 4] += __uint_as_float(high.word[j]);
    } else {
      sums[2 * j] += widen_half(kFrom, low.word[j] & 0xffff);
      sums[2 * j + 1] += kFrom == MoverType::bf16 ? __uint_as_float(low.word[j] & 0xffff0000)
                                                  : widen_half(kFrom, low.word[j] >> 16);
    }
  }
}

// What lies past a piece's end in its stage is added too, and not stored.
template <MoverType kFrom>
STRETTO_DEVICE void add_stage(uint32 stage, uint32 thread, float (&sums)[kVectors<kFrom>][8]) {
  constexpr uint32 kBytes = 8 * bytes_of(kFrom);
  Vector16 low[kVectors<kFrom>], high[kVectors<kFrom>];
#pragma unroll
  for (uint32 i = 0; i < kVectors<kFrom>; ++i) {
    const uint32 at = stage + (thread + i * kGroupWarps * 32) * kBytes;
    low[i] = load_shared_vector(at);
    high[i] = kFrom == MoverType::fp32 ? load_shared_vector(at + 16) : low[i];
  }
#pragma unroll
  for (uint32 i = 0; i < kVectors<kFrom>; ++i) add_eight<kFrom>(low[i], high[i], sums[i]);
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

// By the warps of one add group: the sums of its pieces of a task, stored to every destination.
// `turn` counts pieces.
template <MoverType kFrom>
STRETTO_DEVICE void add_task(const MoverShared& shared, const TaskWalk& walk, uint32 group,
                             uint32& turn, RingPosition& ring) {
  const MoverTask& task = walk.task();
  const MoverPieces pieces(task);
  const uint32 thread = threadIdx.x % (kGroupWarps * 32);
  const uint32 to_size = bytes_of(task.to);
  uint32 across = 0;               // that `places` are for
  uint32 places[kVectors<kFrom>];  // row, and bytes into it in the low half
  MoverPiece piece(task, pieces);
  for (uint32 p = 0; p < pieces.count; ++p, piece.advance(task, pieces)) {
    if (turn++ % kAddGroups != group) {
      ring.advance_by<kMoverStages>(task.num_sources);
      continue;
    }
    if (across != piece.columns / 8) {
      across = piece.columns / 8;
#pragma unroll
      for (uint32 i = 0; i < kVectors<kFrom>; ++i) {
        const uint32 at = thread + i * kGroupWarps * 32;
        places[i] = at / across << 16 | at % across * (8 * to_size);
      }
    }

    float sums[kVectors<kFrom>][8] = {};
    for (uint32 s = 0; s < task.num_sources; ++s) {
      barrier_wait(shared.full + ring.slot * 8, ring.parity);
      add_stage<kFrom>(shared.stages + ring.slot * kStageBytes, thread, sums);
      __syncwarp();
      if (threadIdx.x % 32 == 0) barrier_arrive(shared.empty + ring.slot * 8);
      ring.advance<kMoverStages>();
    }

    EightRounded rounded[kVectors<kFrom>];
#pragma unroll
    for (uint32 i = 0; i < kVectors<kFrom>; ++i) rounded[i] = round_eight(task.to, sums[i]);
#pragma unroll 1
    for (uint32 d = 0; d < task.num_destinations; ++d) {
      const MoverRegion to = walk.region(d);
      const uint64 first = to.address + piece.row * to.row_bytes + piece.column * to_size;
#pragma unroll
      for (uint32 i = 0; i < kVectors<kFrom>; ++i) {
        if (places[i] >> 16 >= piece.rows) continue;
        const uint64 address = first + (places[i] >> 16) * to.row_bytes + (places[i] & 0xffff);
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
STRETTO_DEVICE void add_tasks(const MoverBlock& block, uint32 group) {
  const MoverParams& params = block.params;
  const MoverRegion* regions =
      params.regions + block.epoch % params.region_sets * params.num_regions;
  RingPosition ring;
  uint32 turn = 0, passed = 0;
  for (TaskWalk walk(block, true); !walk.done(); walk.advance()) {
    const MoverTask& task = walk.task();
    if (is_copy(task)) {
      ring.advance_by<kMoverStages>(MoverPieces(task).count);
    } else if (!task.vectors) {
      await_count(block.shared.ready, passed + 1);
      if (task.drains) await_count(block.shared.completed, passed);
      move_elements(task, regions + task.first_region);
    } else if (task.from == MoverType::bf16) {
      add_task<MoverType::bf16>(block.shared, walk, group, turn, ring);
    } else if (task.from == MoverType::fp16) {
      add_task<MoverType::fp16>(block.shared, walk, group, turn, ring);
    } else {
      add_task<MoverType::fp32>(block.shared, walk, group, turn, ring);
    }
    ++passed;
    __syncwarp();
    if (threadIdx.x % 32 == 0) add_release_shared(block.shared.added, 1);
  }
}

// By kStoreWarps warps, which send the stages of copies in turn, one group of stores a stage in
// every lane. A task's copies count as stored once they are complete: kTrailing stages later, or
// when there is nothing to send.
STRETTO_DEVICE void store_tasks(const MoverBlock& block, uint32 warp) {
  constexpr uint32 kTrailing = 3;
  constexpr int kReading = 1;  // groups whose shared memory may still be read
  const MoverShared& shared = block.shared;
  const uint32 lane = threadIdx.x % 32, stored = shared.stored + warp * 4;
  RingPosition ring;
  uint32 unread_slot = 0;
  bool unread = false;
  uint32 turn = 0, sent = 0;         // stages of copies; those by this warp
  uint32 told = 0, passed = 0;       // tasks
  uint32 batch = 0, batch_sent = 0;  // tasks to tell of next, once this many stages are complete
  const auto free_unread = [&] {
    __syncwarp();
    if (lane == 0 && unread) barrier_arrive_many(shared.empty + unread_slot * 8, kGroupWarps);
    unread = false;
  };
  const auto tell = [&](uint32 tasks) {
    __syncwarp();
    if (lane == 0) store_release_shared(stored, tasks);
    told = tasks;
  };
  const auto finish = [&] {
    tma_store_wait<0>();
    free_unread();
    tell(passed);
    batch = passed;
    batch_sent = sent;
  };

  for (TaskWalk walk(block, true); !walk.done(); walk.advance()) {
    const MoverTask& task = walk.task();
    const MoverPieces pieces(task);
    if (!is_copy(task)) {
      ring.advance_by<kMoverStages>(pieces.count * task.num_sources);
      ++passed;
      finish();
      continue;
    }

    const uint32 size = bytes_of(task.from);
    MoverPiece piece(task, pieces);
    for (uint32 p = 0; p < pieces.count; ++p, piece.advance(task, pieces)) {
      if (turn++ % kStoreWarps == warp) {
        const uint32 full = shared.full + ring.slot * 8;
        if (told != passed && !__any_sync(0xffffffffu, barrier_test(full, ring.parity))) finish();
        barrier_wait(full, ring.parity);
        const uint32 stage = shared.stages + ring.slot * kStageBytes;
        const uint32 row_bytes = piece.columns * size;
#pragma unroll 1
        for (uint32 d = 0; d < task.num_destinations; ++d) {
          const MoverRegion to = walk.region(d);
          const uint64 first = to.address + piece.row * to.row_bytes + piece.column * size;
#pragma unroll 1
          for (uint32 row = lane; row < piece.rows; row += 32) {
            bulk_store(first + row * to.row_bytes, stage + row * row_bytes, row_bytes);
          }
        }
        tma_store_commit();
        tma_store_wait_read<kReading>();
        free_unread();
        unread_slot = ring.slot;
        unread = true;
        ++sent;
        if (told != batch && sent - batch_sent >= kTrailing) {
          tma_store_wait<kTrailing>();
          tell(batch);
        }
      }
      ring.advance<kMoverStages>();
    }
    ++passed;
    if (told == batch) {
      batch = passed;
      batch_sent = sent;
    }
  }
  finish();
}

// By one warp, behind all others.
STRETTO_DEVICE void notify_tasks(const MoverBlock& block) {
  const MoverShared& shared = block.shared;
  const uint32 lane = threadIdx.x % 32;
  uint32 passed = 0;
  for (TaskWalk walk(block, true); !walk.done(); walk.advance()) {
    const MoverTask& task = walk.task();
    ++passed;
    await_count(shared.ready, passed);
    await_count(shared.added, passed * kAddWarps);
    for (uint32 w = 0; w < kStoreWarps; ++w) await_count(shared.stored + w * 4, passed);
    __syncwarp();
    for (uint32 n = lane; n < task.num_notifies; n += 32) {
      notify_signal(block.params.signals, block.epoch,
                    block.params.notifies[task.first_notify + n]);
    }
    __syncwarp();
    if (lane == 0) store_release_shared(shared.completed, passed);
  }
}

STRETTO_DEVICE void run_mover(const MoverParams& params) {
  extern __shared__ uint8 shared_memory[];
  const uint32 warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0);
  const MoverBlock block{params,
                         MoverShared(shared_address(shared_memory)),
                         read_rows(params.rows),
                         params.signals.control->epoch,
                         params.first_task[blockIdx.x],
                         params.first_task[blockIdx.x + 1]};
  if (threadIdx.x == 0) block.shared.init();
  __syncthreads();
  if (warp < kAddWarps) {
    add_tasks(block, warp / kGroupWarps);
  } else if (warp < kAddWarps + kLoadWarps) {
    load_tasks(block, warp - kAddWarps);
  } else if (warp < kAddWarps + kLoadWarps + kStoreWarps) {
    store_tasks(block, warp - kAddWarps - kLoadWarps);
  } else if (warp == kAddWarps + kLoadWarps + kStoreWarps) {
    await_tasks(block);
  } else {
    notify_tasks(block);
  }
}

#endif  // STRETTO_DEVICE

}  // namespace stretto::device

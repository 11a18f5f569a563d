// What the warps of a mover's block have in common: its shared memory, and its tasks one after the
// other.
#pragma once

#include "stretto/device/mover_pieces.h"
#ifdef STRETTO_DEVICE
#include "stretto/device/ptx_barrier.h"
#endif

namespace stretto::device {

#ifdef STRETTO_DEVICE

STRETTO_DEVICE bool is_copy(const MoverTask& task) {
  return task.vectors == 1 && task.num_sources == 1 && task.from == task.to && task.num_normed == 0;
}

// Shared-memory addresses of one block.
struct MoverShared {
  uint32 stages, full, empty;
  // Tasks that are past: each add warp's and each store warp's, those whose signals have come, and
  // those whose notifies are made.
  uint32 added, stored, ready, completed;
  uint32 begun;    // stages that each load warp has found empty
  uint32 epoch;    // of the run
  uint32 squares;  // of rows to norm, by add warps

  STRETTO_DEVICE explicit MoverShared(uint32 base) {
    stages = base;
    full = stages + kMoverStages * kStageBytes;
    empty = full + kMoverStages * 8;
    added = empty + kMoverStages * 8;
    stored = added + kAddWarps * 4;
    ready = stored + kStoreWarps * 4;
    completed = ready + 4;
    begun = completed + 4;
    epoch = (begun + kLoadWarps * 4 + 7) & ~7u;
    squares = epoch + 8;
  }
  STRETTO_DEVICE void init() const {
    for (uint32 i = 0; i < kMoverStages; ++i) {
      barrier_init(full + i * 8, 32);
      barrier_init(empty + i * 8, kAddWarps);
    }
    for (uint32 at = added; at < begun + kLoadWarps * 4; at += 4) store_release_shared(at, 0);
    fence_barrier_init();
  }
};

STRETTO_DEVICE void await_count(uint32 address, uint32 count) {
  while (static_cast<int32>(load_acquire_shared(address) - count) < 0) {
  }
}

// Stages by their number since the block began, which say where in the ring they lie. A barrier
// tells only odd rounds of the ring from even ones, so whoever passed over stages that others
// consume, and may be a round ahead of them, first sees that the round before has been consumed:
// that the stage has begun.
STRETTO_DEVICE uint32 slot_of(uint32 stage) { return stage % kMoverStages; }
STRETTO_DEVICE uint32 parity_of(uint32 stage) { return stage / kMoverStages % 2; }

STRETTO_DEVICE bool has_begun(const MoverShared& shared, uint32 stage) {
  const uint32 begun = load_acquire_shared(shared.begun + stage % kLoadWarps * 4);
  return static_cast<int32>(begun - (stage / kLoadWarps + 1)) >= 0;
}
STRETTO_DEVICE void await_begun(const MoverShared& shared, uint32 stage) {
  await_count(shared.begun + stage % kLoadWarps * 4, stage / kLoadWarps + 1);
}

// What all warps of a block know.
struct MoverBlock {
  const MoverParams& params;
  MoverShared shared;
  RunRows run;
  uint64 epoch;
  uint32 index;
  uint32 begin, end;
};

// Where runs have fewer rows than their plan: a task moves those that there are.
STRETTO_DEVICE void leave_out_rows(MoverTask& task, const RunRows& run) {
  const TaskRows& from = task.rows_from;
  const auto count = static_cast<int32>(task.rows);
  task.rows = static_cast<uint32>((from.flags & kRowsOfAllOwners) != 0
                                      ? run.present_of_all(from.first, count)
                                      : run.present(from.owner, from.first, count));
  if (task.rows == 0) {
    task.num_sources = task.num_destinations = 0;
  } else if ((from.flags & kRowsAreSolid) != 0) {  // as one row
    task.columns *= task.rows;
    task.rows = 1;
  }
}

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
  // As it stands in memory: what few tasks have shall take no registers of all.
  STRETTO_DEVICE const MoverTask& entry() const { return params_.tasks[at_]; }
  STRETTO_DEVICE MoverRegion weights() const {
    return regions_[task_.first_region + task_.num_sources + task_.num_destinations];
  }
  // The whole warp calls it with the same `index`.
  STRETTO_DEVICE MoverRegion region(uint32 index) const {
    if (index >= 32) return region_of(index);
    return {__shfl_sync(0xffffffffu, region_.address, static_cast<int>(index)),
            __shfl_sync(0xffffffffu, region_.row_bytes, static_cast<int>(index))};
  }

 private:
  STRETTO_DEVICE void fetch() {
    task_ = next_;
    if (run_.block != 0) leave_out_rows(task_, run_);
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

// Of a piece: one for each source, and for all tiles of the first one together.
template <bool kNorms>
STRETTO_DEVICE uint32 stages_of(const TaskWalk& walk) {
  return walk.task().num_sources - (kNorms ? uint32{walk.entry().more_tiles} : 0);
}

#endif  // STRETTO_DEVICE

}  // namespace stretto::device

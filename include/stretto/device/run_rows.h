// A run of fewer rows than its plan was made for: how many of an owner's rows there are, and where
// they lie. The one place that says so, for plans, tables and kernels.
#pragma once

#include "stretto/device/types.h"

namespace stretto::device {

// What stands in memory as a number of rows, of which there are 0 to `most`.
STRETTO_HOST_DEVICE int32 rows_within(int32 rows, int32 most) {
  return rows < 0 ? 0 : rows < most ? rows : most;
}

// A plan of B rows gives each of its owners a block of ceil(B / owners) rows; a run of `rows` <= B
// gives ceil(rows / owners), the last ones fewer or none, as the operator of so many rows does.
// What lies between ranks keeps the plan's places. The caller's tensors that hold all owners' rows
// are compact: in them an owner's rows stand `shift` rows further down: 0 or less.
struct RunRows {
  int32 rows = 0;
  int32 block = 0;      // rows of a whole owner in the plan
  int32 run_block = 0;  // in this run

  constexpr RunRows() = default;
  STRETTO_HOST_DEVICE RunRows(int32 rows_of_run, int32 owners, int32 block_of_plan)
      : rows(rows_of_run), block(block_of_plan), run_block((rows_of_run + owners - 1) / owners) {}

  // Of the `count` rows from `owner`'s row `first` on: how many there are.
  STRETTO_HOST_DEVICE int32 present(int32 owner, int32 first, int32 count) const {
    const int32 left = rows - owner * run_block;
    const int32 own = left < run_block ? left : run_block;
    const int32 there = own - first;
    return there < 0 ? 0 : there < count ? there : count;
  }
  // The same where all owners' rows lie together.
  STRETTO_HOST_DEVICE int32 present_of_all(int32 first, int32 count) const {
    const int32 there = rows - first;
    return there < 0 ? 0 : there < count ? there : count;
  }
  STRETTO_HOST_DEVICE int32 shift(int32 owner) const { return owner * (run_block - block); }
};

// In a kernel's table: the rows that a task works on begin with `owner`'s row `first`.
struct TaskRows {
  int32 first;
  uint16 owner;
  uint16 flags;
};
inline constexpr uint16 kInputIsCompact = 1, kOutputIsCompact = 2;
// Of a mover's task: in every region its rows follow one another without gaps.
inline constexpr uint16 kRowsAreSolid = 4;
// And: they are counted from the first owner's, and all owners' lie together, as a library makes
// them.
inline constexpr uint16 kRowsOfAllOwners = 8;

// In a kernel's parameters: where it finds how many rows its run has.
struct RowsOfRun {
  const int32* at;  // read when the kernel starts; null: `rows`
  int32 rows;
  int32 owners;
  int32 block;  // 0: every run has the plan's rows
  uint32 reserved;
};
static_assert(sizeof(TaskRows) == 8 && sizeof(RowsOfRun) == 24);

#ifdef STRETTO_DEVICE
STRETTO_DEVICE RunRows read_rows(const RowsOfRun& from) {
  const int32 rows = from.at == nullptr ? from.rows : *from.at;
  return {rows_within(rows, from.owners * from.block), from.owners, from.block};
}
#endif

}  // namespace stretto::device

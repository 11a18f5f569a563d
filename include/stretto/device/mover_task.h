// The task table of the mover kernel.
//
// Every block walks its own list of tasks in order. After its waits a task adds its sources in fp32
// in the order listed, rounds once and stores to every destination, here or on a peer; then it
// makes its notifies. One source of the destinations' type is copied. A task without regions only
// waits and notifies. Where runs may have fewer rows than their plan a task moves those that there
// are.
//
// A task that norms makes of every sum's row, as it was rounded, its RMSNorm: so a reduction and
// the norm of its result are one task, and a norm alone is one of a single source, whose sum is
// stored nowhere. Its rows are whole vectors, and stay of the sources' type where that is not fp32.
//
// A task that restores, by kernels that norm, finds the rows of its first source tile by tile: its
// first sources lie side by side, of so many columns each but the last, which may have fewer. A
// row's tiles are looked up on their way into the ring, where they are one.
//
// A task that maps makes something else of its sources than their sum, element by element, and
// rounds that: what follows a product where that is no part of the GEMM kernel's task.
//
// A task of rows that choose experts (RoutedTask) has its sources and destinations like others, and
// moves them past the ring: its add warps read where tables say.
#pragma once

#include "stretto/device/marks.h"
#include "stretto/device/run_rows.h"
#include "stretto/device/signal.h"

namespace stretto::device {

enum class MoverType : uint8 { bf16, fp16, fp32 };

enum class MoverMap : uint8 {
  none,
  gelu,
  silu,
  swiglu,  // of two sources: silu of the first times the second
};

// A rectangle's first element; its size is the task's.
struct MoverRegion {
  uint64 address;
  uint64 row_bytes;  // from one row to the next
};

struct MoverTask {
  uint32 rows, columns;
  uint32 first_region;  // sources, then destinations, then the weights of a norm: one row
  uint32 first_wait, first_notify;
  uint16 num_waits, num_notifies;
  uint16 num_sources, num_destinations;
  MoverType from, to;
  // 1: rows and addresses are multiples of eight elements and of 16 bytes; 2: and it maps.
  uint8 vectors;
  uint8 drains;  // 1: touches what earlier tasks of its block write or read, so they end first
  uint32 tile;   // named in errors
  TaskRows rows_from;  // where runs may have fewer rows
  uint16 num_normed;   // destinations, the last ones, that take the norms instead of the sums
  MoverType weights;
  MoverMap map;
  float epsilon;
  uint32 routed;        // of routed rows: 1 + place in MoverParams::routed
  uint16 more_tiles;    // that restores: sources that are the first one's too, behind it
  uint16 tile_columns;  // of each of these tiles but the last
};

// What a task of routed rows does, or a sum or look-ups beside them; docs/plan-format.md has what
// each reads and writes.
enum class RoutedKind : uint8 {
  route,
  count_choices,
  place_choices,
  fill_entries,
  weigh,
  combine,
  dispatch,
  permute,
  sum_counts,
  merge,
  reduce,
  embed,
  embed_mean,
  top_k,
  biased_top_k,
  softmax_gate,
  sigmoid_gate,
  slice_ids,
  slice_weights,
};

STRETTO_HOST_DEVICE bool makes_partition(RoutedKind kind) {
  return kind <= RoutedKind::fill_entries;
}

STRETTO_HOST_DEVICE bool is_sum(RoutedKind kind) {
  return kind == RoutedKind::weigh || kind == RoutedKind::combine || kind == RoutedKind::merge ||
         kind == RoutedKind::reduce;
}

STRETTO_HOST_DEVICE bool is_look_up(RoutedKind kind) {
  return kind == RoutedKind::embed || kind == RoutedKind::embed_mean;
}

STRETTO_HOST_DEVICE bool is_router(RoutedKind kind) { return kind >= RoutedKind::top_k; }

struct RoutedTask {
  RoutedKind kind;
  MoverType weights;                 // of WEIGHTS; top_k: of the bias
  uint8 vectors;                     // 1: as of MoverTask, of rows that are moved; 2: and sums
                                     // have the ring's memory
  uint8 wide_ids;                    // IDS are of 64 bits
  uint32 top_k;                      // ids or weights of a row; embed: of a row and table;
                                     // permute: choices of a row
  uint32 table_rows;                 // weigh, combine: of Y; route, fill_entries: of CHOICES;
                                     // place_choices: of as many entries; permute: of X; embed:
                                     // of a table
  uint32 entries;                    // route, fill_entries: of EXPERTS; place_choices: 1; embed:
                                     // tables; top_k: groups; combine: 1 where it
                                     // has IDS in the place of ROWS
  uint32 experts;                    // all
  uint32 first_expert, own_experts;  // of route: those of the partition; dispatch: of who is sent
                                     // to; combine: the rank's. The second, top_k: groups that are
                                     // left; gates: whether they normalise, by what the task has as
                                     // epsilon; slices: of each expert; permute: rows that are
                                     // stored by choice, 0: rows stay in the order of CHOICES
  uint32 workers;                    // route and its steps: warps that make the partition
  uint32 parts;                      // place_choices, fill_entries: rows of PARTS; sum_counts:
                                     // blocks of COUNTS
  uint32 part;                       // place_choices: that of IDS; fill_entries: the first entry
};

struct MoverParams {
  const uint32* first_task;  // by block, and one past the last block
  const MoverTask* tasks;
  const WaitEntry* waits;
  const NotifyEntry* notifies;
  const MoverRegion* regions;  // run e works on set e % region_sets of num_regions each
  SignalSpace signals;
  uint32 num_regions, region_sets;
  RowsOfRun rows;
  TaskMarks marks;
  const RoutedTask* routed;
  uint64* bad_ids;  // ids that were no expert's, in all runs; null: nobody counts
};
static_assert(sizeof(MoverRegion) == 16 && sizeof(MoverTask) == 60 && sizeof(MoverParams) == 152);
static_assert(sizeof(RoutedTask) == 40);

// A block's warps: they add, load, store, wait and notify.
inline constexpr uint32 kAddGroups = 2, kGroupWarps = 8, kAddWarps = kAddGroups * kGroupWarps;
inline constexpr uint32 kLoadWarps = 4, kStoreWarps = 2;
STRETTO_HOST_DEVICE uint32 mover_threads(bool adds) {
  return ((adds ? kAddWarps : 0) + kLoadWarps + kStoreWarps + 2) * 32;
}
inline constexpr uint32 kMoverThreads = mover_threads(true);

// The ring of stages through which all data passes.
inline constexpr uint32 kMoverStages = 12;
inline constexpr uint32 kStageBytes = 16384;
inline constexpr int32 kMoverSharedBytes = static_cast<int32>(kMoverStages * kStageBytes) + 512;
static_assert(kMoverStages % kLoadWarps == 0 && kMoverStages % kStoreWarps == 0);

}  // namespace stretto::device

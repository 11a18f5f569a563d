// What a mover's task of rows that choose experts reads and writes, by its table and those of the
// run. Host code can ask too. All numbers of tables are looked at before they are used: whatever
// stands there, nothing outside a region is read or written.
#pragma once

#include "stretto/device/make_partition.h"
#include "stretto/device/mover_elements.h"

namespace stretto::device {

// Warps that make a partition: all that add, or as many as the ring has room for what they count;
// 0: not even one has.
STRETTO_HOST_DEVICE uint32 partition_workers(int32 experts) {
  uint32 workers = kAddWarps;
  const auto room = static_cast<int64>(kMoverStages * kStageBytes / 4);
  while (workers != 0 && partition_scratch(experts, static_cast<int32>(workers)) > room) {
    --workers;
  }
  return workers;
}

// Whether one of a row's ids names one of `count` experts from `first` on.
STRETTO_PRIMITIVE bool names_one(const RoutedTask& routed, const MoverRegion& ids, uint32 row,
                                 uint32 slot, uint32 first, uint32 count) {
  return static_cast<uint32>(id_at(ids, routed.wide_ids != 0, row, slot)) - first < count;
}

// One of those that are added up to a row.
struct RoutedTerm {
  uint64 row = 0;  // address of its first column
  float weight = 1;
  bool is_there = false;
};

// A row of a partition: which one of X it is, and where it goes.
struct PermutedRow {
  uint32 from = 0, to = 0;
  bool is_there = false;
};

struct RoutedTables {
  const MoverTask& task;
  const RoutedTask& routed;
  const MoverRegion* from;
  const MoverRegion* to;

  // Of the regions of the task's run, the task's first.
  STRETTO_PRIMITIVE static RoutedTables of(const MoverTask& task, const RoutedTask& routed,
                                           const MoverRegion* regions) {
    return {task, routed, regions, regions + task.num_sources};
  }

  STRETTO_PRIMITIVE uint32 num_terms() const {
    if (routed.kind == RoutedKind::reduce) return task.num_sources;
    return routed.kind == RoutedKind::merge ? task.num_sources - 1u : routed.top_k;
  }
  STRETTO_PRIMITIVE RoutedTerm term(uint32 row, uint32 number) const {
    RoutedTerm term;
    if (number >= num_terms()) return term;
    if (routed.kind == RoutedKind::reduce) {
      term.is_there = true;
      term.row = from[number].address + row * from[number].row_bytes;
    } else if (routed.kind == RoutedKind::merge) {  // sources: IDS, then a region of each rank
      const ExpertShares shares{static_cast<int32>(routed.experts),
                                static_cast<int32>(task.num_sources - 1u)};
      const auto first = static_cast<uint32>(shares.begin(static_cast<int32>(number)));
      const auto own = static_cast<uint32>(shares.size(static_cast<int32>(number)));
      constexpr uint32 kAtOnce = 8;  // none waits for the one before
      for (uint32 slot = 0; slot < routed.top_k; slot += kAtOnce) {
        bool is_there[kAtOnce];
        STRETTO_UNROLL for (uint32 i = 0; i < kAtOnce; ++i) {
          const uint32 at = slot + i < routed.top_k ? slot + i : slot;
          is_there[i] = names_one(routed, from[0], row, at, first, own);
        }
        STRETTO_UNROLL for (uint32 i = 0; i < kAtOnce; ++i) term.is_there |= is_there[i];
      }
      term.row = from[1 + number].address + row * from[1 + number].row_bytes;
    } else {  // sources: WEIGHTS, ROWS, Y; or IDS, and Y has a row for each
      uint32 at = row * routed.top_k + number;
      if (routed.kind == RoutedKind::combine && routed.entries != 0) {
        term.is_there =
            names_one(routed, from[1], row, number, routed.first_expert, routed.own_experts);
      } else {
        at = static_cast<uint32>(number_at(from[1], at));
        term.is_there = at < routed.table_rows;
      }
      term.row = from[2].address + at * from[2].row_bytes;
      term.weight = load_element(address_in(from[0], row, number, routed.weights), routed.weights);
    }
    return term;
  }

  // Of permute: the task's row `own`, which has that choice, or none where it is negative.
  STRETTO_PRIMITIVE PermutedRow permuted(int32 choice, uint32 own) const {
    const bool by_choice = routed.own_experts != 0;
    const auto number = static_cast<uint32>(choice);
    PermutedRow row;
    row.from = number / routed.top_k;
    row.to = by_choice ? number : own;
    row.is_there =
        choice >= 0 && row.from < routed.table_rows && (!by_choice || number < routed.own_experts);
    return row;
  }

  // Of sum_counts: choices of the row's expert in all blocks.
  STRETTO_PRIMITIVE int32 sum_of_counts(uint32 row) const {
    int32 sum = 0;
    for (uint32 part = 0; part < routed.parts; ++part) {
      sum += number_at(from[0], part * (task.rows + 1) + row);
    }
    return sum;
  }
  STRETTO_PRIMITIVE void store_number(const MoverRegion& to_column, uint32 row,
                                      int32 number) const {
    *reinterpret_cast<int32*>(to_column.address + row * to_column.row_bytes) = number;
  }

  // Of route, count_choices and place_choices. First source: IDS, whose rows follow one another.
  STRETTO_PRIMITIVE TaskChoices choices() const {
    return {{numbers(from[0]), static_cast<int32>(task.rows * routed.top_k), 1,
             static_cast<int32>(routed.experts), static_cast<int32>(routed.first_expert),
             static_cast<int32>(routed.own_experts)},
            routed.wide_ids != 0};
  }
  // Of route and its steps, whose destinations are CHOICES, EXPERTS, ROWS and COUNTS, of
  // count_choices COUNTS, of place_choices ROWS, and of fill_entries CHOICES, EXPERTS and maybe
  // COUNTS.
  STRETTO_PRIMITIVE Partition partition() const {
    const bool all = routed.kind == RoutedKind::route,
               fills = routed.kind == RoutedKind::fill_entries;
    const uint32 last = task.num_destinations - 1u;
    const bool counts = routed.kind == RoutedKind::count_choices || last == (fills ? 2u : 3u);
    int32* const of_experts = counts ? numbers(to[last]) : nullptr;
    return {static_cast<int32>(routed.table_rows / routed.entries),
            static_cast<int32>(routed.entries),
            all || fills ? numbers(to[0]) : nullptr,
            all || fills ? numbers(to[1]) : nullptr,
            all                                        ? numbers(to[2])
            : routed.kind == RoutedKind::place_choices ? numbers(to[0])
                                                       : nullptr,
            of_experts,
            counts ? of_experts + routed.own_experts : nullptr,
            routed.kind == RoutedKind::place_choices ? part_counts(from[1]) : PartCounts{}};
  }
  // Of PARTS.
  STRETTO_PRIMITIVE PartCounts part_counts(const MoverRegion& parts) const {
    return {numbers(parts), static_cast<int32>(parts.row_bytes / 4),
            static_cast<int32>(routed.parts), static_cast<int32>(routed.part)};
  }
  // Of fill_entries: choices of all parts.
  STRETTO_PRIMITIVE const int32* rows_of_choices() const { return numbers(from[1]); }

 private:
  STRETTO_PRIMITIVE static int32* numbers(const MoverRegion& table) {
    return reinterpret_cast<int32*>(table.address);
  }
};

}  // namespace stretto::device

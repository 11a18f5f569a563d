// Partitions by expert: which row of which expert's product each token's choices get. One function,
// for the host, the emulator and kernels.
//
// Choice c is slot c % top_k of token c / top_k. A partition puts the choices of some experts in
// rows, expert after expert and each expert's in the order of the choices. Rows come in entries of
// `entry_rows`, every one of a single expert, so an expert's last entry may have rows without a
// choice, and entries behind the last expert's are empty. How many there are follows from the
// numbers of tokens and experts alone: most_entries() is exact, whatever the routing is.
#pragma once

#include "stretto/device/types.h"

namespace stretto::device {

STRETTO_HOST_DEVICE int32 most_entries(int64 choices, int32 experts, int32 entry_rows) {
  // Every expert that has a choice leaves at most entry_rows - 1 rows of its last entry empty.
  const int64 used = experts < choices ? experts : choices;
  return static_cast<int32>((choices + used * (entry_rows - 1)) / entry_rows);
}

// Which experts each rank has: contiguous blocks as of rows, the last of which may be short.
struct ExpertShares {
  int32 all, ranks;

  STRETTO_HOST_DEVICE int32 block() const { return (all + ranks - 1) / ranks; }
  STRETTO_HOST_DEVICE int32 begin(int32 rank) const {
    return rank * block() < all ? rank * block() : all;
  }
  STRETTO_HOST_DEVICE int32 size(int32 rank) const { return begin(rank + 1) - begin(rank); }
};

// Where each expert is cut in slices, each of some of its columns, that ranks of their own have: the
// slice's number in a stack of slice 0 of all experts, then slice 1 of all, ... What is no expert's
// has none, and is bad in slice 0 alone, so that it is counted once.
STRETTO_HOST_DEVICE int32 number_of_slice(int32 id, int32 experts, int32 slice) {
  if (id >= 0 && id < experts) return slice * experts + id;
  return id == -1 || slice > 0 ? -1 : -2;
}

// What is chosen. An id is an expert's number, or -1: nothing is chosen there.
template <typename Id>  // of 32 or 64 bits, with a sign
struct Choices {
  const Id* ids;  // [tokens, top_k]
  int32 tokens, top_k;
  int32 all_experts;            // ids at or above this, or below -1, are bad: counted and left out
  int32 first_expert, experts;  // those that the partition is of: [first_expert, + experts)
};

// The partition, in memory that the caller has. No element stays as it was.
struct Partition {
  int32 entry_rows, entries;  // entries >= most_entries()
  int32* tokens;              // [entries * entry_rows] the row's token; -1: the row has no choice
  int32* expert_of_entry;     // [entries] from first_expert on; -1: the entry is empty
  int32* row_of_choice;       // [tokens * top_k]; -1: dropped, bad or of no expert here
  int32* rows_of_expert;      // [experts]
  int32* bad_ids;             // [1]
};

// Sums over workers, and over experts, are made in two steps: of so many groups, then over these.
inline constexpr int32 kPartitionGroups = 16;

// Words of scratch memory that so many workers need.
STRETTO_HOST_DEVICE int64 partition_scratch(int32 experts, int32 workers) {
  return static_cast<int64>(experts + 1) * (workers + kPartitionGroups) + 2 * experts +
         kPartitionGroups;
}

namespace detail {

// Of `count` things, where worker's part begins; its end is where the next one's begins.
STRETTO_HOST_DEVICE int32 share_begin(int32 count, int32 worker, int32 workers) {
  return static_cast<int32>(static_cast<int64>(count) * worker / workers);
}

// The id's column in the scratch memory; the last: a bad id; -1: nothing to place.
template <typename Id>
STRETTO_HOST_DEVICE int32 column_of(const Choices<Id>& choices, Id id) {
  if (id == -1) return -1;
  if (id < 0 || id >= choices.all_experts) return choices.experts;
  const int32 own = static_cast<int32>(id) - choices.first_expert;
  return own >= 0 && own < choices.experts ? own : -1;
}

// visit(choice, column) for choices [begin, end). Ids are read some at a time: who stores to a
// table between would wait for each.
template <typename Id, typename Visit>
STRETTO_HOST_DEVICE void each_choice(const Choices<Id>& choices, int32 begin, int32 end,
                                     const Visit& visit) {
  constexpr int32 kAtOnce = 8;
  for (int32 first = begin; first < end; first += kAtOnce) {
    Id ids[kAtOnce];
    for (int32 i = 0; i < kAtOnce; ++i) {
      ids[i] = first + i < end ? choices.ids[first + i] : Id{-1};
    }
    for (int32 i = 0; i < kAtOnce; ++i) {
      if (first + i < end) visit(first + i, column_of(choices, ids[i]));
    }
  }
}

// visit(place, column, first, last) for this worker's share of columns by groups of workers: those
// from first to last.
template <typename Visit>
STRETTO_HOST_DEVICE void each_group(int32 columns, int32 worker, int32 workers,
                                    const Visit& visit) {
  for (int32 i = worker; i < columns * kPartitionGroups; i += workers) {
    const int32 group = i / columns;
    visit(i, i % columns, share_begin(workers, group, kPartitionGroups),
          share_begin(workers, group + 1, kPartitionGroups));
  }
}

}  // namespace detail

// Makes the partition. Called by all of `workers` threads with their numbers; `meet` makes what
// each has written known to all, as a barrier of a block or a grid does (of one worker: nothing).
// Every worker takes a contiguous part of the choices, so the order does not hang on their number.
template <typename Id, typename Meet>
STRETTO_HOST_DEVICE void make_partition(const Choices<Id>& choices, const Partition& to,
                                        int32* scratch, int32 worker, int32 workers,
                                        const Meet& meet) {
  constexpr int32 kGroups = kPartitionGroups;
  const int32 columns = choices.experts + 1;
  int32* const own = scratch + static_cast<int64>(columns) * worker;
  int32* const of_groups = scratch + static_cast<int64>(columns) * workers;  // [kGroups, columns]
  int32* const totals = of_groups + columns * kGroups;                       // [experts]
  int32* const first_rows = totals + choices.experts;                        // [experts]
  int32* const entries_of_groups = first_rows + choices.experts;             // [kGroups]
  const int32 count = choices.tokens * choices.top_k;
  const int32 begin = detail::share_begin(count, worker, workers);
  const int32 end = detail::share_begin(count, worker + 1, workers);

  for (int32 e = 0; e < columns; ++e) own[e] = 0;
  detail::each_choice(choices, begin, end, [&](int32, int32 column) {
    if (column >= 0) ++own[column];
  });
  meet();
  // Of each column and group of workers: their sum, then that of the groups before, then in the
  // place of each worker's count that of the workers before.
  detail::each_group(columns, worker, workers, [&](int32 i, int32 column, int32 first, int32 last) {
    int32 sum = 0;
    for (int32 w = first; w < last; ++w) sum += scratch[static_cast<int64>(columns) * w + column];
    of_groups[i] = sum;
  });
  meet();
  for (int32 e = worker; e < columns; e += workers) {
    int32 sum = 0;
    for (int32 g = 0; g < kGroups; ++g) {
      const int32 of_one = of_groups[g * columns + e];
      of_groups[g * columns + e] = sum;
      sum += of_one;
    }
    if (e == choices.experts) {
      *to.bad_ids = sum;
    } else {
      totals[e] = to.rows_of_expert[e] = sum;
    }
  }
  meet();
  detail::each_group(columns, worker, workers, [&](int32 i, int32 column, int32 first, int32 last) {
    int32 sum = of_groups[i];
    for (int32 w = first; w < last; ++w) {
      int32& counted = scratch[static_cast<int64>(columns) * w + column];
      const int32 of_one = counted;
      counted = sum;
      sum += of_one;
    }
  });
  const auto entries_of = [&](int32 first, int32 last) {
    int32 sum = 0;
    for (int32 e = first; e < last; ++e) sum += (totals[e] + to.entry_rows - 1) / to.entry_rows;
    return sum;
  };
  const auto first_of_group = [&](int32 group) {
    return detail::share_begin(choices.experts, group, kGroups);
  };
  for (int32 g = worker; g < kGroups; g += workers) {
    entries_of_groups[g] = entries_of(first_of_group(g), first_of_group(g + 1));
  }
  meet();
  const auto empty_rows = [&](int32 first, int32 last) {
    for (int32 r = first; r < last; ++r) to.tokens[r] = -1;
  };
  int32 entry = 0, group = 0;  // ahead of the group
  for (int32 e = worker; e < choices.experts; e += workers) {
    for (; first_of_group(group + 1) <= e; ++group) entry += entries_of_groups[group];
    const int32 first = entry + entries_of(first_of_group(group), e);
    const int32 last = first + entries_of(e, e + 1);
    first_rows[e] = first * to.entry_rows;
    for (int32 i = first; i < last; ++i) to.expert_of_entry[i] = e;
    empty_rows(first_rows[e] + totals[e], last * to.entry_rows);
  }
  for (; group < kGroups; ++group) entry += entries_of_groups[group];
  for (int32 i = entry + worker; i < to.entries; i += workers) {
    to.expert_of_entry[i] = -1;
    empty_rows(i * to.entry_rows, (i + 1) * to.entry_rows);
  }
  meet();
  detail::each_choice(choices, begin, end, [&](int32 c, int32 column) {
    const bool is_own = column >= 0 && column < choices.experts;
    const int32 row = is_own ? first_rows[column] + own[column]++ : -1;
    // Ids that were changed since they were counted have no room.
    const bool is_placed = row >= 0 && row < to.entries * to.entry_rows;
    to.row_of_choice[c] = is_placed ? row : -1;
    if (is_placed) to.tokens[row] = c / choices.top_k;
  });
}

}  // namespace stretto::device

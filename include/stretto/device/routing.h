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

// Words of scratch memory that so many workers need.
STRETTO_HOST_DEVICE int64 partition_scratch(int32 experts, int32 workers) {
  return static_cast<int64>(experts + 1) * workers + experts;
}

namespace detail {

// Of `count` things, where worker's part begins; its end is where the next one's begins.
STRETTO_HOST_DEVICE int32 share_begin(int32 count, int32 worker, int32 workers) {
  return static_cast<int32>(static_cast<int64>(count) * worker / workers);
}

// The expert's column in the scratch memory; `experts`: a bad id; -1: nothing to place.
template <typename Id>
STRETTO_HOST_DEVICE int32 column_of(const Choices<Id>& choices, int32 choice) {
  const Id id = choices.ids[choice];
  if (id == -1) return -1;
  if (id < 0 || id >= choices.all_experts) return choices.experts;
  const int32 own = static_cast<int32>(id) - choices.first_expert;
  return own >= 0 && own < choices.experts ? own : -1;
}

}  // namespace detail

// Makes the partition. Called by all of `workers` threads with their numbers; `meet` makes what
// each has written known to all, as a barrier of a block or a grid does (of one worker: nothing).
// Every worker takes a contiguous part of the choices, so the order does not hang on their number.
template <typename Id, typename Meet>
STRETTO_HOST_DEVICE void make_partition(const Choices<Id>& choices, const Partition& to,
                                        int32* scratch, int32 worker, int32 workers,
                                        const Meet& meet) {
  const int32 columns = choices.experts + 1;
  int32* const own = scratch + static_cast<int64>(columns) * worker;
  int32* const first_rows = scratch + static_cast<int64>(columns) * workers;  // [experts]
  const int32 count = choices.tokens * choices.top_k;
  const int32 begin = detail::share_begin(count, worker, workers);
  const int32 end = detail::share_begin(count, worker + 1, workers);

  for (int32 e = 0; e < columns; ++e) own[e] = 0;
  for (int32 c = begin; c < end; ++c) {
    const int32 column = detail::column_of(choices, c);
    if (column >= 0) ++own[column];
  }
  meet();
  // In each column: the sum of what the workers before have.
  for (int32 e = worker; e < columns; e += workers) {
    int32 sum = 0;
    for (int32 w = 0; w < workers; ++w) {
      int32& counted = scratch[static_cast<int64>(columns) * w + e];
      const int32 of_one = counted;
      counted = sum;
      sum += of_one;
    }
    (e == choices.experts ? *to.bad_ids : to.rows_of_expert[e]) = sum;
  }
  meet();
  const auto entries_of = [&](int32 expert) {
    return (to.rows_of_expert[expert] + to.entry_rows - 1) / to.entry_rows;
  };
  int32 entry = 0, expert = 0;
  for (int32 e = worker; e < choices.experts; e += workers) {
    for (; expert < e; ++expert) entry += entries_of(expert);
    first_rows[e] = entry * to.entry_rows;
    const int32 last = entry + entries_of(e);
    for (int32 i = entry; i < last; ++i) to.expert_of_entry[i] = e;
    for (int32 r = first_rows[e] + to.rows_of_expert[e]; r < last * to.entry_rows; ++r) {
      to.tokens[r] = -1;
    }
  }
  for (; expert < choices.experts; ++expert) entry += entries_of(expert);
  for (int32 i = entry + worker; i < to.entries; i += workers) {
    to.expert_of_entry[i] = -1;
    for (int32 r = i * to.entry_rows; r < (i + 1) * to.entry_rows; ++r) to.tokens[r] = -1;
  }
  meet();
  for (int32 c = begin; c < end; ++c) {
    const int32 column = detail::column_of(choices, c);
    const bool is_placed = column >= 0 && column < choices.experts;
    const int32 row = is_placed ? first_rows[column] + own[column]++ : -1;
    to.row_of_choice[c] = row;
    if (is_placed) to.tokens[row] = c / choices.top_k;
  }
}

}  // namespace stretto::device

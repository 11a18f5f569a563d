// Partitions by expert: which row of which expert's product each token's choices get.
// make_partition.h makes them.
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

// What stands for a number that is no expert's, so that it is counted.
inline constexpr int32 kNoExpert = -2;

// An id of 64 bits as one of 32. What has no room there is no expert's.
STRETTO_HOST_DEVICE int32 narrow_id(int64 id) {
  const auto narrow = static_cast<int32>(id);
  return narrow == id ? narrow : kNoExpert;
}

// Where each expert is cut in slices, each of some of its columns, that ranks of their own have:
// the slice's number in a stack of slice 0 of all experts, then slice 1 of all, ... What is no
// expert's has none, and is bad in slice 0 alone, so that it is counted once.
STRETTO_HOST_DEVICE int32 number_of_slice(int32 id, int32 experts, int32 slice) {
  if (id >= 0 && id < experts) return slice * experts + id;
  return id == -1 || slice > 0 ? -1 : kNoExpert;
}

// What is chosen. An id is an expert's number, or -1: nothing is chosen there.
template <typename Id>  // of 32 or 64 bits, with a sign
struct Choices {
  using Number = Id;
  const Id* ids;  // [tokens, top_k]
  int32 tokens, top_k;
  int32 all_experts;            // ids at or above this, or below -1, are bad: counted and left out
  int32 first_expert, experts;  // those that the partition is of: [first_expert, + experts)

  // Ids [first, end), each `step` behind the one before; -1 where there are no more.
  template <int32 kAtOnce>
  STRETTO_HOST_DEVICE void read(int32 first, int32 end, int32 step, Id (&to)[kAtOnce]) const {
    STRETTO_UNROLL
    for (int32 i = 0; i < kAtOnce; ++i) {
      const int32 c = first + i * step;
      to[i] = c < end ? ids[c] : Id{-1};
    }
  }
};

// Those of a task, which says of how many bits they are.
struct TaskChoices : Choices<int32> {
  bool are_wide;  // ids are of 64 bits

  template <int32 kAtOnce>
  STRETTO_HOST_DEVICE void read(int32 first, int32 end, int32 step, int32 (&to)[kAtOnce]) const {
    if (!are_wide) return Choices<int32>::read(first, end, step, to);
    const auto* wide = reinterpret_cast<const int64*>(ids);
    STRETTO_UNROLL
    for (int32 i = 0; i < kAtOnce; ++i) {
      const int32 c = first + i * step;
      to[i] = c < end ? narrow_id(wide[c]) : -1;
    }
  }
};

// Where the choices of a partition are counted in parts, a row of counts each: of every expert, and
// of bad ids.
struct PartCounts {
  const int32* counts = nullptr;  // [parts, experts + 1], rows `step` apart; null: in no parts
  int32 step = 0, parts = 0;
  int32 part = 0;  // the one that is placed
};

// Choices of all parts that are placed.
struct PlacedChoices {
  PartCounts counts;
  int32 experts;               // of the partition
  const int32* row_of_choice;  // [choices]
  int32 choices;
};

// The partition, in memory that the caller has. No element stays as it was. Many blocks make one in
// three steps: each counts a part of the choices, then each places its part by the counts of all,
// then each fills some of the entries (fill_entries()). Who takes but a step has null where it
// writes nothing.
struct Partition {
  int32 entry_rows, entries;  // entries >= most_entries(), but of a step
  int32* tokens;              // [entries * entry_rows] the row's token; -1: the row has no choice
  int32* expert_of_entry;     // [entries] from first_expert on; -1: the entry is empty
  int32* row_of_choice;       // [tokens * top_k]; -1: dropped, bad or of no expert here
  int32* rows_of_expert;      // [experts]
  int32* bad_ids;             // [1]
  PartCounts of_parts = {};
};

}  // namespace stretto::device

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

// Sums over experts are made in two steps: of so many groups, then over these.
inline constexpr int32 kPartitionGroups = 16;

// Words of scratch memory that so many workers need.
STRETTO_HOST_DEVICE int64 partition_scratch(int32 experts, int32 workers) {
  return static_cast<int64>(experts + 1) * workers + 3 * experts + kPartitionGroups;
}

// Of the lanes of a worker with the same column: how many are before this one, how many there are,
// and which is the first.
struct AlikeLanes {
  int32 before, all, first;
};

// A worker of one lane, as the host's are. Workers of several, as warps, read neighbouring ids at
// once; all of their lanes call these together.
struct LoneWorker {
  static constexpr int32 kCount = 1;
  STRETTO_HOST_DEVICE static int32 number() { return 0; }
  // `column`, below `columns`; those at -1 are alike to nobody that matters.
  STRETTO_HOST_DEVICE static AlikeLanes alike(int32 /*column*/, int32 /*columns*/) {
    return {0, 1, 0};
  }
  // The value of another lane.
  STRETTO_HOST_DEVICE static int32 of(int32 value, int32 /*lane*/) { return value; }
  // What each has written is known to all.
  STRETTO_HOST_DEVICE static void meet() {}
};

namespace detail {

// Of `count` things, where worker's part begins; its end is where the next one's begins.
STRETTO_HOST_DEVICE int32 share_begin(int32 count, int32 worker, int32 workers) {
  const int32 rest = count % workers;
  return count / workers * worker + (worker < rest ? worker : rest);
}

// The id's column in the scratch memory; the last: a bad id; -1: nothing to place.
template <typename Id>
STRETTO_HOST_DEVICE int32 column_of(const Choices<Id>& choices, Id id) {
  if (id == -1) return -1;
  if (id < 0 || id >= choices.all_experts) return choices.experts;
  const int32 own = static_cast<int32>(id) - choices.first_expert;
  return own >= 0 && own < choices.experts ? own : -1;
}

// visit(choice, column) for choices [begin, end), as many at once as there are lanes; -1 and -1
// where there are no more. Ids are read some at a time: who stores to a table between would wait
// for each. They move on from register to register, so that there is one visit in the code.
template <class Worker, typename Of, typename Visit>
STRETTO_HOST_DEVICE void each_choice(const Of& choices, int32 begin, int32 end,
                                     const Visit& visit) {
  constexpr int32 kAtOnce = 8, kLine = Worker::kCount;
  STRETTO_ROLLED
  for (int32 first = begin; first < end; first += kAtOnce * kLine) {
    typename Of::Number ids[kAtOnce];
    choices.read(first + Worker::number(), end, kLine, ids);
    STRETTO_ROLLED
    for (int32 line = first; line < end && line < first + kAtOnce * kLine; line += kLine) {
      const int32 c = line + Worker::number();
      visit(c < end ? c : -1, column_of(choices, ids[0]));
      STRETTO_UNROLL
      for (int32 i = 0; i + 1 < kAtOnce; ++i) ids[i] = ids[i + 1];
    }
  }
}

// Of a column of words, each `step` behind the one before: their sum, from `sum` on. Where they are
// replaced, each becomes the sum ahead of it. Read some at a time, as ids are.
template <bool kReplaces>
STRETTO_HOST_DEVICE int32 sum_column(int32* words, int32 count, int32 step, int32 sum) {
  constexpr int32 kAtOnce = 4;
  STRETTO_ROLLED
  for (int32 first = 0; first < count; first += kAtOnce) {
    int32 some[kAtOnce];
    STRETTO_UNROLL
    for (int32 i = 0; i < kAtOnce; ++i) {
      some[i] = first + i < count ? words[(first + i) * step] : 0;
    }
    STRETTO_UNROLL
    for (int32 i = 0; i < kAtOnce; ++i) {
      if (kReplaces && first + i < count) words[(first + i) * step] = sum;
      sum += some[i];
    }
  }
  return sum;
}

// Of an expert, or of bad ids: choices of all parts, and of those before the one that is placed.
struct PartSums {
  int32 all, before;
};
STRETTO_HOST_DEVICE PartSums sum_parts(const PartCounts& of, int32 column) {
  constexpr int32 kAtOnce = 8;
  PartSums sums = {0, 0};
  STRETTO_ROLLED
  for (int32 first = 0; first < of.parts; first += kAtOnce) {
    int32 some[kAtOnce];
    STRETTO_UNROLL
    for (int32 i = 0; i < kAtOnce; ++i) {
      some[i] = first + i < of.parts ? of.counts[(first + i) * of.step + column] : 0;
    }
    STRETTO_UNROLL
    for (int32 i = 0; i < kAtOnce; ++i) {
      sums.all += some[i];
      if (first + i < of.part) sums.before += some[i];
    }
  }
  return sums;
}

// Where in the scratch memory of all workers what begins: each worker's counts, of every column,
// and then:
struct PartitionScratch {
  int32* words;
  int32 experts, workers;

  STRETTO_HOST_DEVICE int32* own(int32 worker) const { return words + (experts + 1) * worker; }
  STRETTO_HOST_DEVICE int32* totals() const { return own(workers); }            // [experts]
  STRETTO_HOST_DEVICE int32* first_rows() const { return totals() + experts; }  // [experts]
  STRETTO_HOST_DEVICE int32* entries_of() const { return first_rows() + experts; }
  STRETTO_HOST_DEVICE int32* entries_of_groups() const { return entries_of() + experts; }

  STRETTO_HOST_DEVICE void set_total(int32 expert, int32 choices, int32 entry_rows) const {
    totals()[expert] = choices;
    entries_of()[expert] = (choices + entry_rows - 1) / entry_rows;
  }
};

// Once all know the experts' totals: the first row of each, and visit(expert, its first entry, how
// many it has) by one thread. How many entries are filled; first rows are not known to all yet.
template <typename Meet, typename Visit>
STRETTO_HOST_DEVICE int32 lay_out_entries(const PartitionScratch& scratch, int32 entry_rows,
                                          int32 thread, int32 threads, const Meet& meet,
                                          const Visit& visit) {
  constexpr int32 kGroups = kPartitionGroups;
  const int32 experts = scratch.experts;
  const auto first_of_group = [&](int32 group) { return share_begin(experts, group, kGroups); };
  const auto sum_of_entries = [&](int32 first, int32 last) {
    return sum_column<false>(scratch.entries_of() + first, last - first, 1, 0);
  };
  STRETTO_ROLLED
  for (int32 g = thread; g < kGroups; g += threads) {
    scratch.entries_of_groups()[g] = sum_of_entries(first_of_group(g), first_of_group(g + 1));
  }
  meet();
  const auto groups_before = [&](int32 group) {
    return sum_column<false>(scratch.entries_of_groups(), group, 1, 0);
  };
  STRETTO_ROLLED
  for (int32 e = thread; e < experts; e += threads) {
    int32 group = 0;
    while (first_of_group(group + 1) <= e) ++group;
    const int32 first = groups_before(group) + sum_of_entries(first_of_group(group), e);
    scratch.first_rows()[e] = first * entry_rows;
    visit(e, first, scratch.entries_of()[e]);
  }
  return groups_before(kGroups);
}

// Of rows [first, first + rows) of a partition, those without a choice: behind each expert's and
// behind them all. First rows are known to all.
template <class Worker>
STRETTO_HOST_DEVICE void clear_rows(const PartitionScratch& scratch, int32 entry_rows, int32 filled,
                                    int32 first_row, int32 rows, int32* tokens, int32 worker,
                                    int32 workers) {
  constexpr int32 kLine = Worker::kCount;
  const int32 end = first_row + rows;
  STRETTO_ROLLED
  for (int32 e = worker; e < scratch.experts; e += workers) {
    const int32 first = scratch.first_rows()[e];
    const int32 behind = first + scratch.entries_of()[e] * entry_rows;
    const int32 last = behind < end ? behind : end;
    const int32 empty = first + scratch.totals()[e];
    STRETTO_ROLLED
    for (int32 row = (empty > first_row ? empty : first_row) + Worker::number(); row < last;
         row += kLine) {
      tokens[row - first_row] = -1;
    }
  }
  const int32 behind = filled * entry_rows;
  STRETTO_ROLLED
  for (int32 row = (behind > first_row ? behind : first_row) + worker * kLine + Worker::number();
       row < end; row += workers * kLine) {
    tokens[row - first_row] = -1;
  }
}

}  // namespace detail

// Makes the partition, or counts or places a part of its choices. Called by all lanes of all
// `workers` with the worker's number; `meet` makes what each has written known to all, as a barrier
// of a block or a grid does (of one worker: nothing). Every worker takes a contiguous part of the
// choices, line after line, so the order does not hang on their number. Loops are rolled: a block
// that makes one partition fetches its code as it goes.
template <class Worker = LoneWorker, typename Of, typename Meet>  // Choices, or those of a task
STRETTO_HOST_DEVICE void make_partition(const Of& choices, const Partition& to, int32* scratch,
                                        int32 worker, int32 workers, const Meet& meet) {
  constexpr int32 kLine = Worker::kCount;
  const int32 experts = choices.experts, columns = experts + 1;
  const int32 thread = worker * kLine + Worker::number(), threads = workers * kLine;
  const detail::PartitionScratch words{scratch, experts, workers};
  int32* const own = words.own(worker);
  const int32 count = choices.tokens * choices.top_k, lines = (count + kLine - 1) / kLine;
  const int32 begin = detail::share_begin(lines, worker, workers) * kLine;
  const int32 behind = detail::share_begin(lines, worker + 1, workers) * kLine;
  const int32 end = behind < count ? behind : count;

  STRETTO_ROLLED
  for (int32 e = Worker::number(); e < columns; e += kLine) own[e] = 0;
  Worker::meet();
  detail::each_choice<Worker>(choices, begin, end, [&](int32, int32 column) {
    const AlikeLanes alike = Worker::alike(column, columns);
    if (column >= 0 && alike.before == 0) own[column] += alike.all;
    Worker::meet();
  });
  meet();
  // In the place of each worker's count that of the workers, and the parts, before.
  STRETTO_ROLLED
  for (int32 e = thread; e < columns; e += threads) {
    const bool in_parts = to.of_parts.counts != nullptr;
    const detail::PartSums parts =
        in_parts ? detail::sum_parts(to.of_parts, e) : detail::PartSums{0, 0};
    const int32 sum = detail::sum_column<true>(words.words + e, workers, columns, parts.before);
    const int32 all = in_parts ? parts.all : sum;
    if (e < experts) words.set_total(e, all, to.entry_rows);
    if (e < experts && to.rows_of_expert != nullptr) to.rows_of_expert[e] = all;
    if (e == experts && to.bad_ids != nullptr) *to.bad_ids = all;
  }
  if (to.row_of_choice == nullptr) return;
  meet();
  const int32 filled = detail::lay_out_entries(words, to.entry_rows, thread, threads, meet,
                                               [&](int32 e, int32 first, int32 entries) {
                                                 if (to.tokens == nullptr) return;
                                                 STRETTO_ROLLED
                                                 for (int32 i = 0; i < entries; ++i)
                                                   to.expert_of_entry[first + i] = e;
                                               });
  meet();
  if (to.tokens != nullptr) {
    STRETTO_ROLLED
    for (int32 i = filled + thread; i < to.entries; i += threads) to.expert_of_entry[i] = -1;
    detail::clear_rows<Worker>(words, to.entry_rows, filled, 0, to.entries * to.entry_rows,
                               to.tokens, worker, workers);
  }
  detail::each_choice<Worker>(choices, begin, end, [&](int32 c, int32 column) {
    const bool is_own = column >= 0 && column < experts;
    const AlikeLanes alike = Worker::alike(is_own ? column : -1, columns);
    int32 first = 0;
    if (is_own && alike.before == 0) {
      int32& next = own[column];
      first = words.first_rows()[column] + next;
      next += alike.all;
    }
    const int32 row = Worker::of(first, alike.first) + alike.before;
    // Ids that were changed since they were counted have no room.
    const bool is_placed = is_own && (to.tokens == nullptr || row < to.entries * to.entry_rows);
    if (c >= 0) to.row_of_choice[c] = is_placed ? row : -1;
    if (is_placed && to.tokens != nullptr) to.tokens[row] = c / choices.top_k;
    Worker::meet();
  });
}

// Fills entries [first_entry, + to.entries) of a partition of `choices` choices whose rows are
// placed: tokens and experts of these, and where there is room for them, counts of all. A choice is
// a token of its own. Called as make_partition().
template <class Worker = LoneWorker, typename Meet>
STRETTO_HOST_DEVICE void fill_entries(const PartCounts& of, int32 experts,
                                      const int32* row_of_choice, int32 choices, int32 first_entry,
                                      const Partition& to, int32* scratch, int32 worker,
                                      int32 workers, const Meet& meet) {
  constexpr int32 kAtOnce = 8;
  const int32 thread = worker * Worker::kCount + Worker::number();
  const int32 threads = workers * Worker::kCount;
  const detail::PartitionScratch words{scratch, experts, workers};
  STRETTO_ROLLED
  for (int32 e = thread; e <= experts; e += threads) {
    const int32 all = detail::sum_parts(of, e).all;
    if (e < experts) words.set_total(e, all, to.entry_rows);
    if (e < experts && to.rows_of_expert != nullptr) to.rows_of_expert[e] = all;
    if (e == experts && to.bad_ids != nullptr) *to.bad_ids = all;
  }
  meet();
  const int32 end_entry = first_entry + to.entries;
  const int32 filled = detail::lay_out_entries(
      words, to.entry_rows, thread, threads, meet, [&](int32 e, int32 first, int32 entries) {
        const int32 begin = first > first_entry ? first : first_entry;
        STRETTO_ROLLED
        for (int32 i = begin; i < first + entries && i < end_entry; ++i) {
          to.expert_of_entry[i - first_entry] = e;
        }
      });
  meet();
  STRETTO_ROLLED
  for (int32 i = (filled > first_entry ? filled : first_entry) + thread; i < end_entry;
       i += threads) {
    to.expert_of_entry[i - first_entry] = -1;
  }
  const int32 first_row = first_entry * to.entry_rows, rows = to.entries * to.entry_rows;
  detail::clear_rows<Worker>(words, to.entry_rows, filled, first_row, rows, to.tokens, worker,
                             workers);
  STRETTO_ROLLED
  for (int32 first = thread; first < choices; first += threads * kAtOnce) {
    int32 some[kAtOnce];
    STRETTO_UNROLL
    for (int32 i = 0; i < kAtOnce; ++i) {
      const int32 c = first + i * threads;
      some[i] = c < choices ? row_of_choice[c] : -1;
    }
    STRETTO_UNROLL
    for (int32 i = 0; i < kAtOnce; ++i) {
      const int32 row = some[i] - first_row;
      if (some[i] >= first_row && row < rows) to.tokens[row] = first + i * threads;
    }
  }
}

}  // namespace stretto::device

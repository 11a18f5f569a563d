// What the making of a partition is put together from: who makes it, the memory that they share,
// and the passes over choices, experts and entries.
#pragma once

#include "stretto/device/routing.h"

namespace stretto::device {

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

// Who makes a partition together: this one is worker number `worker` of `workers`, and meet() makes
// what each has written known to all, as a barrier of a block or a grid does.
template <typename Meet>
struct PartitionTeam {
  int32 worker, workers;
  Meet meet;
};
template <typename Meet>
PartitionTeam(int32, int32, Meet) -> PartitionTeam<Meet>;

// One worker has nobody to meet.
struct LoneTeam {
  int32 worker = 0, workers = 1;
  STRETTO_HOST_DEVICE void meet() const {}
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
template <bool kReplaces, int32 kAtOnce = 4, class Words>
STRETTO_HOST_DEVICE int32 sum_column(Words words, int32 count, int32 step, int32 sum) {
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
template <typename Team, typename Visit>
STRETTO_HOST_DEVICE int32 lay_out_entries(const PartitionScratch& scratch, int32 entry_rows,
                                          int32 thread, int32 threads, const Team& team,
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
  team.meet();
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

// Of entries [first_entry, + to.entries) of a partition, the rows without a choice: behind each
// expert's and behind them all. First rows are known to all.
template <class Worker>
STRETTO_HOST_DEVICE void clear_rows(const PartitionScratch& scratch, const Partition& to,
                                    int32 first_entry, int32 filled, int32 worker) {
  constexpr int32 kLine = Worker::kCount;
  const int32 first_row = first_entry * to.entry_rows;
  const int32 end = first_row + to.entries * to.entry_rows;
  STRETTO_ROLLED
  for (int32 e = worker; e < scratch.experts; e += scratch.workers) {
    const int32 first = scratch.first_rows()[e];
    const int32 behind = first + scratch.entries_of()[e] * to.entry_rows;
    const int32 last = behind < end ? behind : end;
    const int32 empty = first + scratch.totals()[e];
    STRETTO_ROLLED
    for (int32 row = (empty > first_row ? empty : first_row) + Worker::number(); row < last;
         row += kLine) {
      to.tokens[row - first_row] = -1;
    }
  }
  const int32 behind = filled * to.entry_rows;
  STRETTO_ROLLED
  for (int32 row = (behind > first_row ? behind : first_row) + worker * kLine + Worker::number();
       row < end; row += scratch.workers * kLine) {
    to.tokens[row - first_row] = -1;
  }
}

}  // namespace detail

}  // namespace stretto::device

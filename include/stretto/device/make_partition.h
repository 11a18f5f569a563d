// Makes partitions, as a whole or in steps: one function for the host, the emulator and kernels.
#pragma once

#include "stretto/device/partition_steps.h"

namespace stretto::device {

// Makes the partition, or counts or places a part of its choices (Of: Choices, or those of a task).
// Called by all lanes of all workers of the team (PartitionTeam), which share partition_scratch()
// words. Every worker takes a contiguous part of the choices, line after line, so the order does
// not hang on their number. Loops are rolled: a block that makes one partition fetches its code as
// it goes.
template <class Worker = LoneWorker, typename Of, typename Team = LoneTeam>
STRETTO_HOST_DEVICE void make_partition(const Of& choices, const Partition& to, int32* scratch,
                                        const Team& team = {}) {
  constexpr int32 kLine = Worker::kCount;
  const int32 worker = team.worker, workers = team.workers;
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
  team.meet();
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
  team.meet();
  const int32 filled = detail::lay_out_entries(words, to.entry_rows, thread, threads, team,
                                               [&](int32 e, int32 first, int32 entries) {
                                                 if (to.tokens == nullptr) return;
                                                 STRETTO_ROLLED
                                                 for (int32 i = 0; i < entries; ++i)
                                                   to.expert_of_entry[first + i] = e;
                                               });
  team.meet();
  if (to.tokens != nullptr) {
    STRETTO_ROLLED
    for (int32 i = filled + thread; i < to.entries; i += threads) to.expert_of_entry[i] = -1;
    detail::clear_rows<Worker>(words, to, 0, filled, worker);
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

// Fills entries [first_entry, + to.entries) of a partition: tokens and experts of these, and where
// there is room for them, counts of all. A choice is a token of its own. Called as
// make_partition().
template <class Worker = LoneWorker, typename Team = LoneTeam>
STRETTO_HOST_DEVICE void fill_entries(const PlacedChoices& of, int32 first_entry,
                                      const Partition& to, int32* scratch, const Team& team = {}) {
  constexpr int32 kAtOnce = 8;
  const int32 experts = of.experts;
  const int32 thread = team.worker * Worker::kCount + Worker::number();
  const int32 threads = team.workers * Worker::kCount;
  const detail::PartitionScratch words{scratch, experts, team.workers};
  STRETTO_ROLLED
  for (int32 e = thread; e <= experts; e += threads) {
    const int32 all = detail::sum_parts(of.counts, e).all;
    if (e < experts) words.set_total(e, all, to.entry_rows);
    if (e < experts && to.rows_of_expert != nullptr) to.rows_of_expert[e] = all;
    if (e == experts && to.bad_ids != nullptr) *to.bad_ids = all;
  }
  team.meet();
  const int32 end_entry = first_entry + to.entries;
  const int32 filled = detail::lay_out_entries(
      words, to.entry_rows, thread, threads, team, [&](int32 e, int32 first, int32 entries) {
        const int32 begin = first > first_entry ? first : first_entry;
        STRETTO_ROLLED
        for (int32 i = begin; i < first + entries && i < end_entry; ++i) {
          to.expert_of_entry[i - first_entry] = e;
        }
      });
  team.meet();
  STRETTO_ROLLED
  for (int32 i = (filled > first_entry ? filled : first_entry) + thread; i < end_entry;
       i += threads) {
    to.expert_of_entry[i - first_entry] = -1;
  }
  const int32 first_row = first_entry * to.entry_rows, rows = to.entries * to.entry_rows;
  detail::clear_rows<Worker>(words, to, first_entry, filled, team.worker);
  STRETTO_ROLLED
  for (int32 first = thread; first < of.choices; first += threads * kAtOnce) {
    int32 some[kAtOnce];
    STRETTO_UNROLL
    for (int32 i = 0; i < kAtOnce; ++i) {
      const int32 c = first + i * threads;
      some[i] = c < of.choices ? of.row_of_choice[c] : -1;
    }
    STRETTO_UNROLL
    for (int32 i = 0; i < kAtOnce; ++i) {
      const int32 row = some[i] - first_row;
      if (some[i] >= first_row && row < rows) to.tokens[row] = first + i * threads;
    }
  }
}

}  // namespace stretto::device

// A partition made once through its choices, by one block or by a few that read one another's
// memory: what a kernel of its own does (partition_kernel.h) where nothing else has to be done
// meanwhile. The tables are those of make_partition(), bit for bit.
#pragma once

#include "stretto/device/partition_steps.h"

namespace stretto::device {

// A block's threads, and the most blocks, which is what every GPU of Hopper's has as a cluster.
inline constexpr int32 kPartitionThreads = 1024, kMostPartitionBlocks = 8;
inline constexpr int32 kPartitionSharedBytes = 200 * 1024;
// A choice is kept as its column above its number among its warp's of that column.
inline constexpr int32 kKeptBits = 16;

// What a block has in its shared memory, to which Words points. Of choices, those of its warps,
// line after line.
template <class Words>
struct BlockPartitionScratch {
  Words words;
  int32 experts, warps;

  STRETTO_HOST_DEVICE int32 columns() const { return experts + 1; }
  // By warp and column: choices, and later how many the warps before have.
  STRETTO_HOST_DEVICE Words counts(int32 warp) const { return words + columns() * warp; }
  STRETTO_HOST_DEVICE Words totals() const { return counts(warps); }  // by column
  STRETTO_HOST_DEVICE Words all() const { return totals() + columns(); }
  STRETTO_HOST_DEVICE Words first_rows() const { return all() + columns(); }  // of the block's
  STRETTO_HOST_DEVICE Words first_entries() const { return first_rows() + columns(); }
  STRETTO_HOST_DEVICE Words entries_of_warps() const { return first_entries() + columns(); }
  STRETTO_HOST_DEVICE Words kept() const { return entries_of_warps() + warps; }
};

// Lines of choices of each worker, where so many workers have lines of so many lanes.
STRETTO_HOST_DEVICE int32 lines_of_worker(int32 choices, int32 workers, int32 lanes) {
  const int32 all = workers * lanes;
  return choices / all + (choices % all != 0);
}
STRETTO_HOST_DEVICE int64 block_partition_scratch(int32 choices, int32 experts, int32 blocks,
                                                  int32 warps, int32 lanes) {
  return int64{warps + 4} * (experts + 1) + warps +
         int64{lines_of_worker(choices, blocks * warps, lanes)} * warps * lanes;
}

// Blocks that make a partition of so many choices: as many as save more than it takes them to meet.
// 0: they have no room.
STRETTO_HOST_DEVICE int32 partition_blocks(int32 choices, int32 experts) {
  constexpr int32 kLanes = 32, kWarps = kPartitionThreads / kLanes;
  constexpr int32 kOfOneBlock = 2 * kPartitionThreads;
  int32 blocks = 1;
  while (choices > kOfOneBlock && blocks < kMostPartitionBlocks &&
         choices > blocks * kPartitionThreads) {
    blocks *= 2;
  }
  const int64 words = block_partition_scratch(choices, experts, blocks, kWarps, kLanes);
  const bool fits = words * 4 <= kPartitionSharedBytes && experts < (1 << (31 - kKeptBits)) &&
                    lines_of_worker(choices, blocks * kWarps, kLanes) * kLanes < (1 << kKeptBits);
  return fits ? blocks : 0;
}

// Blocks that make one beside what else their kernel does, with so many threads each: these have
// two choices each, or more where that would take more than half of all blocks.
inline constexpr int32 kJoinedThreads = 512;
STRETTO_HOST_DEVICE int32 joined_partition_blocks(int32 choices, int32 all_blocks) {
  int32 blocks = 1;
  while (blocks < kMostPartitionBlocks && choices > 2 * kJoinedThreads * blocks &&
         4 * blocks <= all_blocks) {
    blocks *= 2;
  }
  return blocks;
}
// Whether even one of them has room.
STRETTO_HOST_DEVICE bool joined_partition_fits(int32 choices, int32 experts) {
  constexpr int32 kLanes = 32, kWarps = kJoinedThreads / kLanes;
  return block_partition_scratch(choices, experts, 1, kWarps, kLanes) * 4 <=
             kPartitionSharedBytes &&
         experts < (1 << (31 - kKeptBits)) &&
         lines_of_worker(choices, kWarps, kLanes) * kLanes < (1 << kKeptBits);
}

// Called by all threads of all blocks of a team, which says where the caller is (`block` of
// `blocks`, `warp` of `warps`), and has meet() of a block, meet_all() and at(block, totals, column)
// for what another block has there; between part() and end() no more of that is read. Choices are
// tokens of their own (top_k 1). To has what Partition has. tell_bad(how many ids are bad) is
// called by one thread.
template <class Worker, typename Of, class To, class Words, class Team, typename TellBad>
STRETTO_HOST_DEVICE void make_partition_by_blocks(const Of& choices, const To& to, Words scratch,
                                                  const Team& team, const TellBad& tell_bad) {
  constexpr int32 kLine = Worker::kCount;
  const int32 lane = Worker::number(), thread = team.warp * kLine + lane;
  const int32 threads = team.warps * kLine;
  const int32 workers = team.blocks * team.warps, worker = team.block * team.warps + team.warp;
  const int32 experts = choices.experts, columns = experts + 1, rows = to.entry_rows;
  const int32 count = choices.tokens;
  const int32 of_worker = lines_of_worker(count, workers, kLine) * kLine;
  const int32 begin = worker * of_worker < count ? worker * of_worker : count;
  const int32 end = count - begin < of_worker ? count : begin + of_worker;
  const BlockPartitionScratch<Words> words{scratch, experts, team.warps};
  const Words own = words.counts(team.warp);

  // Each choice's number among those of its warp and column, which is all that is kept of it: ids
  // are read once.
  STRETTO_ROLLED
  for (int32 e = lane; e < columns; e += kLine) own[e] = 0;
  Worker::meet();
  Words kept = words.kept() + thread;
  detail::each_choice<Worker>(choices, begin, end, [&](int32, int32 column) {
    const AlikeLanes alike = Worker::alike(column, columns);
    const int32 before = column >= 0 ? own[column] : 0;
    Worker::meet();
    if (column >= 0 && alike.before == 0) own[column] = before + alike.all;
    Worker::meet();
    const bool is_own = column >= 0 && column < experts;
    kept[0] = is_own ? (column << kKeptBits) + before + alike.before : -1;
    kept += threads;
  });
  team.meet();
  STRETTO_ROLLED
  for (int32 e = thread; e < columns; e += threads) {
    words.totals()[e] = detail::sum_column<true, 8>(words.counts(0) + e, team.warps, columns, 0);
  }
  team.meet_all();

  // Of every expert the choices of all blocks, and where its entries begin: each block for itself.
  int32 filled = 0;
  STRETTO_ROLLED
  for (int32 first = 0; first < columns; first += threads) {
    const int32 e = first + thread;
    int32 all = 0, before = 0;
    STRETTO_UNROLL
    for (int32 block = 0; block < kMostPartitionBlocks; ++block) {
      const bool is_there = block < team.blocks && e < columns;
      const int32 of_block = is_there ? team.at(block, words.totals(), e)[0] : 0;
      all += of_block;
      before += block < team.block ? of_block : 0;
    }
    const int32 entries = e < experts ? (all + rows - 1) / rows : 0;
    int32 behind = entries;  // of the warp's lanes up to this one
    STRETTO_UNROLL
    for (int32 d = 1; d < kLine; d *= 2) {
      const int32 other = Worker::of(behind, lane < d ? lane : lane - d);
      behind += lane < d ? 0 : other;
    }
    if (lane == kLine - 1) words.entries_of_warps()[team.warp] = behind;
    team.meet();
    const int32 left = (columns - first + kLine - 1) / kLine;  // warps that have some
    const int32 in_use = left < team.warps ? left : team.warps;
    const int32 ahead = team.warp < in_use ? team.warp : in_use;
    const Words of_warps = words.entries_of_warps();
    const int32 before_warp = detail::sum_column<false>(of_warps, ahead, 1, filled);
    const int32 first_entry = before_warp + behind - entries;
    filled = detail::sum_column<false>(of_warps + ahead, in_use - ahead, 1, before_warp);
    if (e < columns) {
      words.all()[e] = all;
      words.first_entries()[e] = first_entry;
      words.first_rows()[e] = first_entry * rows + before;
      if (team.block == 0 && e < experts) to.rows_of_expert[e] = all;
      if (team.block == 0 && e == experts) to.bad_ids[0] = all, tell_bad(all);
    }
    team.meet();
  }
  team.part();

  kept = words.kept() + thread;
  STRETTO_ROLLED
  for (int32 c = begin + lane; c < end; c += kLine, kept += threads) {
    const int32 as_kept = kept[0], column = as_kept >> kKeptBits;
    int32 row = -1;
    if (column >= 0) {
      row = words.first_rows()[column] + own[column] + (as_kept & ((1 << kKeptBits) - 1));
      to.tokens[row] = c;
    }
    to.row_of_choice[c] = row;
  }
  // A worker has an expert's entries, and rows of its last one that have no choice.
  STRETTO_ROLLED
  for (int32 e = worker; e < experts; e += workers) {
    const int32 first = words.first_entries()[e], last = words.first_entries()[e + 1];
    STRETTO_ROLLED
    for (int32 i = first + lane; i < last; i += kLine) to.expert_of_entry[i] = e;
    STRETTO_ROLLED
    for (int32 row = first * rows + words.all()[e] + lane; row < last * rows; row += kLine) {
      to.tokens[row] = -1;
    }
  }
  STRETTO_ROLLED
  for (int32 i = filled + worker * kLine + lane; i < to.entries; i += workers * kLine) {
    to.expert_of_entry[i] = -1;
  }
  STRETTO_ROLLED
  for (int32 row = filled * rows + worker * kLine + lane; row < to.entries * rows;
       row += workers * kLine) {
    to.tokens[row] = -1;
  }
  team.end();
}

}  // namespace stretto::device

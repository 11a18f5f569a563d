// Products of many experts in one kernel: what it is specialised on, and the tiles that it walks.
//
// A partition that the device makes (routing.h) says how many rows each expert has; they lie expert
// by expert. Each has weights of its own, columns x K. A tile is some of an expert's rows by some
// of its columns. What is special:
// - Weights are wgmma's A and tokens its B. A tile has 128, 192 or 256 columns, but as many rows as
//   its expert needs, in units of 16, which is what wgmma's N allows: a few rows do not cost as
//   much as 64, and little is multiplied in vain.
// - No host knows how many tiles there are. A block finds its own by the counts (grouped_load.h).
// - Rows can be gathered: found by an index each, as they are loaded.
// - Of few tiles with a long K the blocks of a cluster multiply a range of it each, and add them up
//   through each other's shared memory (grouped_ranges.h).
// Sums of an element are added in the order of K, those of ranges behind one another, whatever tile
// it lies in and whoever computes that: bits depend neither on other rows nor on the number of SMs.
// How many ranges there are is of the kernel, which a shape chooses.
#pragma once

#include "stretto/device/gemm_task.h"

namespace stretto::device {

struct GroupedConfig {
  int32 columns = 256;  // of weights in a tile: 128, 192 or 256
  int32 rows = 128;     // of tokens at most: a multiple of 16, up to most_rows_of()
  int32 stages = 4;     // K blocks in flight
  int32 ranges = 1;     // of K, by a block of a cluster each: 1 or 2
  // Chunks of a finished tile that a consumer hands over at once, of which twice as many have room
  // until they are stored. A tile of a short K is multiplied sooner than it is handed over one by
  // one; then it also is worth it that rows are looked up, and fenced, ahead.
  int32 together = 1;
  bool bf16 = true;       // else fp16
  bool gathers = false;   // rows of tokens by index, instead of sorted ones
  bool scatters = false;  // rows of the output by index, instead of sorted ones
  bool weighs = false;    // each row times its weight, behind the follower
  // Of swiglu the weights are two matrices of as many columns each as the output has.
  Follower follower = Follower::none;

  constexpr bool operator==(const GroupedConfig&) const = default;
};

inline constexpr int32 kUnitRows = 16;
inline constexpr int32 kGatherWarps = 4;      // a warpgroup
inline constexpr int32 kMostUnits = 16;       // in a tile
inline constexpr int32 kChunkSlots = 2;       // in each ring
inline constexpr int32 kTokenChunkRows = 32;  // of a tile's rows handed to the warp that stores
// Stages may hold as many tiles as there are stages, and there are some more in the making.
inline constexpr int32 kTileNotes = 16;
inline constexpr int32 kMostExperts = 512;
inline constexpr int32 kRowMaps = 6;  // 32, 16, 8, 4, 2 and 1 rows at once

struct GroupedLayout {
  int32 consumers;  // warpgroups: 2 or 3
  int32 threads;
  int32 mmas;            // of 64 rows of weights, in a consumer
  int32 halves;          // products side by side: 1 or 2
  int32 stored_columns;  // of a tile
  int32 a_bytes, b_bytes;
  int32 chunk_columns;  // 64 or 32
  int32 chunk_bytes;
  int32 slot_bytes;     // of chunks that are handed over together
  int32 chunk_rings;    // 1: all consumers fill the same chunks; else one each
  int32 chunks_across;  // of a tile, in a ring
  int32 gather_warps;   // copy rows one by one
  int32 shared_bytes;
};

STRETTO_HOST_DEVICE GroupedLayout layout_of(const GroupedConfig& config) {
  GroupedLayout layout{};
  layout.consumers = config.columns == 192 ? 3 : 2;
  layout.gather_warps = config.gathers ? kGatherWarps : 0;
  layout.threads = (layout.consumers + (config.gathers ? 2 : 1)) * kWarpgroup;
  layout.mmas = config.columns / 64 / layout.consumers;
  layout.halves = config.follower == Follower::swiglu ? 2 : 1;
  layout.stored_columns = config.columns / layout.halves;
  layout.a_bytes = config.columns * kTileK * 2;
  layout.b_bytes = config.rows * kTileK * 2;
  layout.chunk_columns = layout.stored_columns == 96 ? 32 : 64;
  layout.chunk_bytes = kTokenChunkRows * layout.chunk_columns * 2;
  layout.slot_bytes = config.together * layout.chunk_bytes;
  layout.chunk_rings = layout.stored_columns == 64 ? 1 : layout.consumers;
  layout.chunks_across = layout.stored_columns / layout.chunk_columns / layout.chunk_rings;
  layout.shared_bytes = 1024 + config.stages * (layout.a_bytes + layout.b_bytes) +
                        layout.chunk_rings * kChunkSlots * layout.slot_bytes + 512 +
                        4 * (3 * kMostExperts + 4) + 16 * kTileNotes + 32 + kTileNotes * 8 +
                        layout.gather_warps * ((config.rows + 31) / 32 * 32) * 2;
  return layout;
}

// What movers need to copy rows, consumers go without.
STRETTO_HOST_DEVICE RegisterBudget registers_of(const GroupedConfig& config) {
  if (config.columns == 192) {
    return config.gathers ? RegisterBudget{128, 48} : RegisterBudget{144, 72};
  }
  if (config.gathers) return {208, 48};
  return config.scatters || config.ranges > 1 ? RegisterBudget{208, 88} : RegisterBudget{232, 40};
}

// The tallest tile for which `ptxas` finds registers. A warpgroup that gathers takes some of a
// consumer's, and so do warps that store by index; of two columns that become one half is kept.
STRETTO_HOST_DEVICE int32 most_rows_of(const GroupedConfig& config) {
  if (config.columns == 128) return config.gathers ? 192 : 256;
  if (config.columns == 192) return config.gathers ? 128 : 160;
  const bool by_index = config.gathers || config.scatters || config.weighs;
  return by_index && config.follower != Follower::swiglu ? 128 : 144;
}

// A block that asks for more than it was launched with waits for ever. It is launched with as many
// for each thread as 65536 have room for, in steps of 8.
STRETTO_HOST_DEVICE bool has_registers(const GroupedConfig& config) {
  const int32 threads = layout_of(config).threads;
  const int32 consumers = layout_of(config).consumers * kWarpgroup;
  const RegisterBudget budget = registers_of(config);
  const int32 asked = consumers * budget.consumer + (threads - consumers) * budget.mover;
  return asked <= 65536 / threads / 8 * 8 * threads;
}

// The chunks of a tile of so many rows that range `range` of so many adds up and stores begin here;
// those of the next range end them.
STRETTO_HOST_DEVICE uint32 first_chunk_of(uint32 rows, uint32 range, uint32 ranges) {
  return (rows + kTokenChunkRows - 1) / kTokenChunkRows * range / ranges;
}
// Which range has that chunk.
STRETTO_HOST_DEVICE uint32 range_of_chunk(uint32 rows, uint32 chunk, uint32 ranges) {
  uint32 range = 0;
  while (first_chunk_of(rows, range + 1, ranges) <= chunk) ++range;
  return range;
}
// What a block receives of the others, over the stages' memory.
STRETTO_HOST_DEVICE int32 received_bytes(const GroupedConfig& config) {
  const int32 chunks = (config.rows + kTokenChunkRows - 1) / kTokenChunkRows;
  const int32 own = (chunks + config.ranges - 1) / config.ranges;
  return (config.ranges - 1) * own * kTokenChunkRows * config.columns * 4;
}

struct GroupedParams {
  TensorMap weights;             // (K, columns, experts), of swiglu (K, 8, 2, columns / 8, experts)
  TensorMap tokens[kMostUnits];  // sorted rows, so many units of them at once
  TensorMap outputs[kRowMaps];
  const int32* rows_of_expert;  // of a partition (routing.h)
  const int32* sources;         // of each sorted row a choice, where the kernel gathers
  const int32* targets;         // its row of the output, where the kernel scatters
  const float* row_weights;     // of each sorted row
  // Zeros ahead of the first launch, and behind each: how many tiles blocks have asked for, and how
  // many blocks are done.
  uint32* tickets;
  // How many of this kernel's tiles are stored: of all, and behind that of those that lie next to
  // each other (stored_word()). Zeros ahead of a launch, which counts up from them: the kernel that
  // awaits them leaves zeros once this one has ended, and the next launch is behind that one. Null:
  // the kernel behind does not ask.
  uint32* stored;
  // Those of the kernel ahead, whose output are this one's tokens, where tiles begin as soon as
  // their rows are there; zeros behind the launch. Null: all of that kernel is awaited.
  uint32* awaited;
  uint64 tokens_address;  // where the kernel gathers
  uint64 output_address;  // where it scatters
  uint32 token_row_bytes;
  uint32 token_rows;  // of which sources name some
  uint32 experts;
  uint32 entry_rows;  // an expert's rows begin at a multiple of it
  uint32 output_row_bytes;
  uint32 output_columns;
  uint32 column_blocks;  // tiles next to each other
  uint32 num_k;          // in blocks of kTileK
  uint32 k_bytes;        // of a row
  uint32 band;           // tiles of rows that share weights before the next weights' turn
  uint32 most_rows;      // of the partition: counts that come to more are cut
  uint32 output_rows;    // of which targets name some
  uint32 per;            // choice c takes row c / per of tokens
  uint32 gate_last;      // of swiglu: the first half of weights is of U, the second of the gate
  uint32 low_from;       // tiles of this expert and those behind it are half as high
  // The kernel ahead on the stream is another of experts. That writes neither this one's partition
  // nor its weights; and it has waited for all ahead of it before it let this one start, or started
  // no sooner than such a one let it: so counts may be read, and weights come, before it has ended.
  // Tokens may be what it makes.
  uint32 is_partition_early;
  // Of the kernel whose tiles are awaited: how high they are at most, from which expert on half as
  // high, and how often tiles next to each other are counted.
  uint32 ahead_rows, ahead_low_from, ahead_times;
};
static_assert(sizeof(GroupedParams) == 3136);

// A tile: rows [row, row + rows) of the partition.
struct GroupedTile {
  uint32 expert, block;
  uint32 row, rows;
  uint32 units;  // of kUnitRows that are multiplied
  int32 column;  // first, of the output
};

// Experts' rows one behind the other, in a partition's room for `most` of them: of an expert whose
// rows begin with row `first`, how many there are, and where the next one's begin.
STRETTO_HOST_DEVICE uint32 rows_with_room(uint32 first, uint32 rows, uint32 most) {
  return rows < most - first ? rows : most - first;
}
STRETTO_HOST_DEVICE uint32 next_first_row(uint32 first, uint32 rows, uint32 entry_rows,
                                          uint32 most) {
  const uint32 taken = (rows + entry_rows - 1) / entry_rows * entry_rows;
  return taken < most - first ? first + taken : most;
}

STRETTO_HOST_DEVICE uint32 units_of_rows(uint32 rows) { return (rows + kUnitRows - 1) / kUnitRows; }

// Into how many tiles of at most `most` rows an expert's are cut; `low`: half as high, of a unit at
// least.
STRETTO_HOST_DEVICE uint32 row_tiles(uint32 rows, bool low, uint32 most) {
  const uint32 tiles = (rows + most - 1) / most, units = units_of_rows(rows);
  return !low ? tiles : 2 * tiles < units ? 2 * tiles : units;
}
template <GroupedConfig kConfig>
STRETTO_HOST_DEVICE uint32 row_tiles(uint32 rows, bool low) {
  return row_tiles(rows, low, kConfig.rows);
}

// So many units are cut into so many tiles, to a unit equally high: with which unit tile `at`
// begins, and which tile a unit lies in.
STRETTO_HOST_DEVICE uint32 first_unit_of(uint32 units, uint32 tiles, uint32 at) {
  const uint32 base = units / tiles, longer = units - base * tiles;
  return at * base + (at < longer ? at : longer);
}
STRETTO_HOST_DEVICE uint32 tile_of_unit(uint32 units, uint32 tiles, uint32 unit) {
  const uint32 base = units / tiles, longer = units - base * tiles;
  const uint32 end_of_longer = longer * (base + 1);
  return unit < end_of_longer ? unit / (base + 1) : longer + (unit - end_of_longer) / base;
}

// Of the tiles of `expert` whose first row is this row of the partition: no others have this word.
STRETTO_HOST_DEVICE uint32 stored_word(uint32 expert, uint32 row) {
  return 1 + expert + row / kUnitRows;
}
STRETTO_HOST_DEVICE uint32 stored_words(uint32 experts, uint32 most_rows) {
  return stored_word(experts, most_rows);
}

// Whether a kernel can await tiles of the one ahead. With ranges `ptxas` finds no registers for it
// where rows are scattered; and who gathers has other warps that read tokens.
STRETTO_HOST_DEVICE bool can_await_tiles(const GroupedConfig& config) {
  return config.ranges == 1 && !config.gathers;
}

// Tile `number` of an expert that has `rows` rows from `first` on: the tiles are equally high, to a
// unit, and `band` of them go by the same weights before the next weights' turn. So what runs at
// the same time shares weights and rows, in L2.
template <GroupedConfig kConfig>
STRETTO_HOST_DEVICE GroupedTile tile_of(uint32 expert, uint32 first, uint32 rows, bool low,
                                        uint32 number, uint32 column_blocks, uint32 most_in_band) {
  const uint32 tiles = row_tiles<kConfig>(rows, low);
  const uint32 band = number / (most_in_band * column_blocks);
  const uint32 left = tiles - band * most_in_band;
  const uint32 in_band = left < most_in_band ? left : most_in_band;
  const uint32 place = number - band * most_in_band * column_blocks;
  const uint32 block = place / in_band;
  const uint32 at = band * most_in_band + place - block * in_band;
  const uint32 units = units_of_rows(rows);
  const uint32 first_unit = first_unit_of(units, tiles, at);
  GroupedTile tile{};
  tile.expert = expert;
  tile.block = block;
  tile.units = first_unit_of(units, tiles, at + 1) - first_unit;
  tile.row = first + first_unit * kUnitRows;
  const uint32 end = (first_unit + tile.units) * kUnitRows;
  tile.rows = (end < rows ? end : rows) - first_unit * kUnitRows;
  return tile;
}

}  // namespace stretto::device

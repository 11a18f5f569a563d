// The task table of the GEMM kernel and the choices that a compiled kernel is specialised on.
//
// Every block walks its own list of tasks in order. A task computes one tile C = A * B^T over a
// range of K, after its waits, stores it to each of its destinations, then makes its notifies. In a
// kernel with phases a wait may stand before a later block of the task's K: those in front of it do
// not wait. A task that adds awaits its late waits once the tile is computed, then adds what they
// announced. Where the rank adds to some rows of a tile only, two tasks make up the tile: the first
// stores the other rows, for which their owners may be waiting; the second has no K and adds to the
// tile as the first has left it in registers.
// A kernel that serves leaves out rows that its run has not, and does nothing for a tile
// without rows but its waits and notifies. Rows, columns and K past the edge of a tensor map read
// as zeros and are not written: an edge of a region is the edge of its map.
#pragma once

#include "stretto/device/marks.h"
#include "stretto/device/run_rows.h"
#include "stretto/device/signal.h"
#include "stretto/device/tensor_map.h"

namespace stretto::device {

// The operand that the two blocks of a cluster have in common; each loads half of it for both.
// Their lists must then be equally long, and paired tasks must agree in that operand and in K.
//
// A stage is loaded once both blocks have released it, and multiplied once both have loaded their
// part: so neither gets further ahead of the other than the ring has stages, and what one waits for
// holds up both. Whether tasks come to their ends must not depend on that: so paired tasks must
// await the same signals before the same blocks of K, and nothing behind the last of them. What a
// block could wait for through its partner it then waits for itself, there or before.
enum class Shared : uint8 { none, a, b };

enum class OutputType : uint8 { bf16, fp16, fp32 };

// What follows a tile's product while it is in registers, in fp32, before it is rounded.
//
// swiglu: silu(G) * U of two products with one A. The first half of a tile's columns are of G, the
// second of U, each from rows of its own of an operand of its own: a thread has both at the same
// place of either half. The tile that is stored has half as many columns.
enum class Follower : uint8 { none, swiglu, gelu, silu };

struct GemmConfig {
  int32 tile_m = 128;
  int32 tile_n = 256;
  int32 stages = 4;     // K blocks in flight
  int32 consumers = 2;  // warpgroups that multiply; tile_m / consumers is 64 or 128
  Shared shared = Shared::b;
  bool bf16 = true;  // inputs; else fp16
  OutputType output = OutputType::bf16;
  bool overlap_store = true;  // store a tile while the next one multiplies; 16-bit outputs only
  bool serves = false;        // runs may have fewer rows than the plan; without clusters only
  int32 adds = 0;        // sources that a task may add to its tile; 16-bit outputs, no clusters
  bool splits = false;   // a tile's K may be split among tasks (GemmSplit); no clusters
  bool phases = false;   // waits may stand before later blocks of a task's K
  bool sources = false;  // K may begin anywhere, with rows of A in another map; with phases only
  bool moves = false;    // its first blocks are movers (gemm_mover.h)
  bool norms = false;    // blocks norm rows behind their tiles (gemm_rows.h); 16-bit outputs only
  // What tasks do to their tiles before they store them, a row of bias first; where the kernel
  // adds, to the sums that they add up, and to nothing else.
  Follower follower = Follower::none;
  bool bias = false;
  // Tiles are of a partition's entries (GemmEntry), and an entry's expert says whose rows of a
  // stack B are; with `gathers` the rows of A are found by index besides, and with `scatters` those
  // of the output. No clusters, serves, adds, splits, phases or moves, and 16-bit outputs.
  bool grouped = false;
  bool gathers = false;
  bool scatters = false;

  constexpr bool operator==(const GemmConfig&) const = default;
};

inline constexpr int32 kTileK = 64;
inline constexpr int32 kSharedBytesOfHopper = 227 * 1024;  // that a block may have
inline constexpr int32 kWarpgroup = 128;
// What a block's warps remember of its tasks, where the kernel is grouped: more tasks than stages
// and chunks can hold tiles of.
inline constexpr int32 kTaskNotes = 32;

// What follows from a configuration; host and device agree on it here.
struct GemmLayout {
  int32 cluster, threads;
  int32 halves;            // products side by side in a tile: 1 or 2
  int32 stored_columns;    // of a tile
  int32 a_bytes, b_bytes;  // of one stage
  int32 chunk_columns;     // a store's box is kChunkRows rows of these
  int32 chunk_bytes, chunk_slots, chunks;
  int32 a_box_rows, b_box_rows;
  // Of what others sent to be added to a tile: pieces of all its rows and a chunk's columns, in
  // stages of the ring. A stage holds so many where A is otherwise, and where B is.
  int32 piece_bytes, pieces_in_a, pieces_in_b;
  int32 shared_bytes;  // dynamic shared memory, alignment slack included

  // Whether rows [begin, end) of a tile can be stored, in boxes of a power of two of them: each
  // lies at a multiple of 128 bytes of shared memory. So rows of 32 bytes end with no box of two
  // and one of one behind it.
  STRETTO_HOST_DEVICE bool stores_rows(int32 begin, int32 end) const {
    const int32 row_bytes = chunk_bytes / 64;
    return begin * row_bytes % 128 == 0 && (row_bytes > 32 || end % 4 != 3);
  }
};

STRETTO_HOST_DEVICE GemmLayout layout_of(const GemmConfig& config) {
  GemmLayout layout{};
  layout.cluster = config.shared == Shared::none ? 1 : 2;
  layout.threads = (config.consumers + 1) * kWarpgroup;
  layout.halves = config.follower == Follower::swiglu ? 2 : 1;
  layout.stored_columns = config.tile_n / layout.halves;
  layout.a_bytes = config.tile_m * kTileK * 2;
  layout.b_bytes = config.tile_n * kTileK * 2;
  const int32 out_bytes = config.output == OutputType::fp32 ? 4 : 2;
  // Rows of 128, 64 or 32 bytes: as wide as divides what is stored. Halves of 48, 80 and 112
  // columns are odd multiples of 16.
  layout.chunk_columns = layout.stored_columns % 64 == 0                 ? 128 / out_bytes
                         : layout.stored_columns % (64 / out_bytes) == 0 ? 64 / out_bytes
                                                                         : 32 / out_bytes;
  layout.chunk_bytes = 64 * layout.chunk_columns * out_bytes;
  layout.chunks =
      layout.stored_columns / layout.chunk_columns * (config.tile_m / config.consumers / 64);
  layout.chunk_slots = 16384 / layout.chunk_bytes;  // 16 KB a consumer
  layout.a_box_rows = config.shared == Shared::a ? config.tile_m / 2 : config.tile_m;
  layout.b_box_rows =
      config.shared == Shared::b || layout.halves == 2 ? config.tile_n / 2 : config.tile_n;
  layout.piece_bytes = config.tile_m * layout.chunk_columns * out_bytes;
  layout.pieces_in_a = layout.a_bytes / layout.piece_bytes;
  layout.pieces_in_b = layout.b_bytes / layout.piece_bytes;
  layout.shared_bytes = 1024 + config.stages * (layout.a_bytes + layout.b_bytes) +
                        config.consumers * layout.chunk_slots * layout.chunk_bytes + 512 +
                        (config.grouped ? 4 * kTaskNotes : 0) +
                        (config.gathers ? 4 * config.tile_m + 16 : 0);
  return layout;
}

// The register budgets of a thread: together no more than the 64 K of an SM, in eights for each.
struct RegisterBudget {
  int32 consumer, mover;

  constexpr bool operator==(const RegisterBudget&) const = default;
};

// With the usual budgets the compiler spills some bytes of these; why of these and not of their
// neighbours only it knows. Phases and which 16-bit type it is make no difference.
// tests/launch/every_kernel_test.cpp holds all kernels to none.
struct TightKernel {
  int32 tile_m, tile_n;
  bool fp32, serves, splits, moves;
};
inline constexpr TightKernel kTightKernels[] = {
    {64, 256, false, true, false, false}, {64, 256, false, true, false, true},
    {64, 256, false, false, true, false}, {64, 256, false, false, true, true},
    {128, 128, false, true, true, true},  {64, 256, true, true, false, true},
    {64, 128, true, true, false, true},   {128, 64, true, true, false, false},
};

STRETTO_HOST_DEVICE RegisterBudget registers_of(const GemmConfig& config) {
  // A lone consumer leaves registers over; of two, each can spare some of so small a tile.
  const RegisterBudget tight =
      config.consumers == 1 ? RegisterBudget{240, 96} : RegisterBudget{216, 72};
  if (config.bias && config.consumers == 1) return tight;
  if (config.grouped && config.consumers == 1) return {240, 72};
  // Of 256 rows a lane of either warp has eight choices in registers.
  if (config.gathers && config.scatters && config.tile_m == 256) return {208, 88};
  if (config.gathers || config.scatters) return tight;
  for (const TightKernel& kernel : kTightKernels) {
    if (config.tile_m != kernel.tile_m || config.tile_n != kernel.tile_n || config.adds > 0 ||
        (config.output == OutputType::fp32) != kernel.fp32 || config.serves != kernel.serves ||
        config.splits != kernel.splits || config.moves != kernel.moves) {
      continue;
    }
    return tight;
  }
  return {224, 56};
}

struct GemmTask {
  int32 a_row, b_row;  // first row of the tile in its maps
  uint16 a_map, b_map;
  uint16 first_k, num_k;  // in blocks of kTileK; num_k 0: goes on with the tile of the task before
  uint32 first_wait, first_notify, first_destination;
  uint8 num_waits, num_notifies, num_destinations;
  uint8 num_late_waits;  // they follow the others, which stand in the order of K
  uint32 tile;           // named in errors
  // Where others' sums for this tile begin, in a map of the output's type: GemmConfig::adds + 1 of
  // them, sum_step rows from one to the next; the tile itself stands for number sum_own. sum_step
  // 0: nothing to add. Of a part of the tile the first row may lie above the map.
  uint16 sum_map;
  // `sum_elsewhere`: the last that is added is none of those, but a residual: behind the task's
  // destinations another entry has its row, column and map, which loads as sum_map does. Not in a
  // kernel that serves.
  uint8 sum_own, sum_elsewhere;
  int32 sum_row, sum_column, sum_step;
  // Of each, the map loads boxes [sum_begin, sum_end) of the tile's rows, which are sum_box times
  // kChunkRows high. What lies in the others is anything, and its sums are stored nowhere.
  uint8 sum_begin, sum_end, sum_box;
  uint8 stores_far;  // whether stores go to another GPU and shall give way to the next tile's loads
  TaskRows rows;
};
static_assert(sizeof(GemmTask) == 64);

// Of a task that computes one range of its tile's K, as one of several tasks. All but that of the
// first range have no destination and leave fp32 sums, rows x columns of them in an order of
// columns of their own, for the first one's task. It awaits its late waits, and adds the others'
// sums to its own before it adds anything else.
struct GemmSplit {
  uint64 sums;  // left here; of the first range: where its own would be
  uint32 row_bytes;
  uint32 step;           // from each range's sums to the next one's, in units of 16 bytes
  uint16 rows, columns;  // columns: a multiple of 8
  uint32 ranges;         // added in all; 1: the task leaves its own; 0: it computes a whole tile
};
static_assert(sizeof(GemmSplit) == 24);

// What follows a task's product, where the kernel has followers. The tile's first row in the
// operand of the second half of its columns; each half's bias from its first column on, of the
// inputs' type, and how many columns that has.
struct GemmFollow {
  uint64 bias[2];  // 0: none
  int32 b_row;
  uint16 b_map;
  uint16 bias_columns;  // even
};
static_assert(sizeof(GemmFollow) == 24);

// Of a task whose K is that of several ranks, where the kernel has sources. Its first blocks of A
// are in a map of their own, from the first column of that on. Behind the last block of K the first
// one follows.
struct GemmSource {
  int32 own_row;
  uint16 own_map, own_blocks;
  uint16 end_block;  // of K
  uint16 reserved;
};
static_assert(sizeof(GemmSource) == 12);

// Rows that lie anywhere in one tensor, as a table names them by number. What names none of them
// goes nowhere: whatever stands in the table, nothing else is written.
struct ScatteredRows {
  uint64 address;    // of the first row's first column
  uint64 row_bytes;  // from one row to the next
  uint32 rows;
  uint32 column_bytes;  // of a row that are written
};
static_assert(sizeof(ScatteredRows) == 24);

// Of a task of a grouped kernel: the entry of a partition (routing.h) that its tile is of, or some
// of its rows. Who reads the tables has awaited the task's signals.
struct GemmEntry {
  uint64 expert;  // where the entry's expert stands; it is empty where that is none of `experts`
  // Where the kernel gathers or scatters: where the choices of the tile's rows stand, one below the
  // other, -1 for none. Rows without one are anything.
  uint64 choices;
  uint64 x;  // where it gathers: of X, choice c takes row c / per
  uint64 x_row_bytes;
  uint32 x_rows, per;
  uint32 rows;     // of the tile: so many choices
  uint32 k_bytes;  // of a row of X
  uint32 experts;  // matrices of the stack
  uint32 each;     // rows from each of them to the next
  // Where the kernel scatters: the rows of choices, from the tile's first column on. The task has
  // no destinations.
  ScatteredRows to;
};
static_assert(sizeof(GemmEntry) == 80);

// Takes rows [begin, end) of the tile. Where the tile's first row and column lie in the maps; the
// rows taken are not above a map's first, or the store faults.
struct GemmDestination {
  int32 row, column;
  uint16 begin, end;
  uint16 map;        // 64 rows at once
  uint16 part_maps;  // of the same matrix, 32, 16, 8, 4, 2 and 1 rows at once; where rows need them
};
inline constexpr int32 kChunkRows = 64;
inline constexpr int32 kPartMaps = 6;

inline constexpr uint32 kMostSms = 512;

struct GemmParams {
  const TensorMap* maps;     // run e works with set e % map_sets of num_maps each
  const uint32* first_task;  // by block, and one past the last block
  const GemmTask* tasks;
  const WaitEntry* waits;
  const NotifyEntry* notifies;
  const GemmDestination* destinations;
  SignalSpace signals;
  uint32 num_maps, map_sets;
  RowsOfRun rows;
  const GemmSplit* splits;  // by task and half of its columns, where the kernel splits
  // Counts as first_task does what a block awaits behind its tasks; null: nothing.
  const uint32* first_end_wait;
  TaskMarks marks;
  uint32* acquired;           // by SM, up to kMostSms: 1 once a block on it has acquired the maps
  const GemmFollow* follows;  // by task, where the kernel has followers or bias
  // By task, where the kernel is grouped; run e works with set e % map_sets of num_entries each.
  const GemmEntry* entries;
  uint64 num_entries;
  const GemmSource* sources;  // by task, where the kernel has sources
};
static_assert(sizeof(GemmParams) == 200);

}  // namespace stretto::device

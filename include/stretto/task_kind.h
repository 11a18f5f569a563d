// TaskKind: all that distinguishes one kind of task from another, as one row. Plans, the emulator,
// the simulation, the checker and GPUs ask the row. A kind is a line of the list below and a file
// of its own, src/tasks/<kind>.cpp, that defines its row: without one nothing links, and a row that
// does not say what it costs, which kernel does it and what it is to a tile does not compile.
//
// A task reads regions and has one result, a matrix, which it writes to one or several places.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "stretto/region.h"

namespace stretto {

// X(enumerator, text, meaning)
#define STRETTO_TASK_KINDS(X)                                                           \
  X(gemm, "gemm", "one output tile")                                                    \
  X(reduce, "reduce", "fp32 sum in fixed order")                                        \
  X(copy, "copy", "move a region")                                                      \
  X(restore, "restore", "rows of packed tiles side by side, and what is added to them") \
  X(swiglu, "swiglu", "silu of one region times another")                               \
  X(gelu, "gelu", "Gaussian error linear unit, tanh form")                              \
  X(silu, "silu", "sigmoid linear unit")                                                \
  X(bias, "bias", "add one row to all")                                                 \
  X(norm, "norm", "divide rows by their root mean square")                              \
  X(route, "route", "a partition of choices by expert")                                 \
  X(count_choices, "count_choices", "how many of some choices are each expert's")       \
  X(place_choices, "place_choices", "which rows of a partition some choices get")       \
  X(fill_entries, "fill_entries", "which choices some entries of a partition have")     \
  X(sum_counts, "sum_counts", "choices that each expert has in all blocks of tokens")   \
  X(permute, "permute", "move the rows that a partition's choices take")                \
  X(gather_gemm, "gather_gemm", "one tile of an expert's product, its rows gathered")   \
  X(grouped_gemm, "grouped_gemm", "one tile of an expert's product, its rows in place") \
  X(weigh, "weigh", "weighted sum of each token's rows")                                \
  X(dispatch, "dispatch", "move the rows that choose an expert of a rank")              \
  X(combine, "combine", "weighted sums, of tokens that have a row here")                \
  X(merge, "merge", "fp32 sum of what ranks with a chosen expert made")                 \
  X(embed, "embed", "sums of rows of tables, which indices pick")                       \
  X(embed_mean, "embed_mean", "means of rows of tables, which indices pick")            \
  X(top_k, "top_k", "the experts of the highest scores of each row")                    \
  X(biased_top_k, "biased_top_k", "the same of sigmoids with a bias")                   \
  X(softmax_gate, "softmax_gate", "weights of chosen experts, a softmax of scores")     \
  X(sigmoid_gate, "sigmoid_gate", "weights of chosen experts, sigmoids of scores")      \
  X(slice_ids, "slice_ids", "the slices of chosen experts")                             \
  X(slice_weights, "slice_weights", "each weight once for each slice")

namespace tasks {
struct Work;          // src/tasks/work.h
struct RoutedKernel;  // src/tasks/routed_kernel.h
}  // namespace tasks
namespace device {
enum class MoverMap : unsigned char;  // stretto/device/mover_task.h
enum class Follower : unsigned char;  // stretto/device/gemm_task.h
}  // namespace device

// The least that does such tasks. It says which lanes may run them.
enum class Worker : uint8_t {
  gemm_kernel,   // it multiplies: a compute lane
  mover_kernel,  // it loads, computes and stores: any block lane
  copy_engine,   // it only moves: any lane but NCCL's
};

// A member that every row has to say: without it the row does not compile.
template <typename T>
struct Required {
  T value;
  constexpr Required(T said) : value(said) {}
  constexpr operator T() const { return value; }
};

// What is wrong with the regions that a task reads: what was expected, and either the region that
// was found or what was found instead. Nothing is wrong where nothing was expected.
struct TaskFault {
  std::string expected;
  const Region* region = nullptr;
  std::string found = {};
};

// What the result has a column for each of.
enum class ColumnsOf : uint8_t { first_read, last_read, rows_of_last_read, writes };

struct KindOperands {
  std::span<const Region> reads, writes;
  int64_t counts[2] = {};
  int ranks = 1;
};

struct TaskShares {
  double read = 1, written = 1;
};

// What a task is bound by.
enum class Rate : uint8_t {
  mmas,   // its multiplications, and the inputs that tiles share
  sums,   // the bytes that it reads and writes, at what a block reaches that computes
  moves,  // the same bytes, at what one reaches that only moves, or a copy engine
};

// What simulations charge for a task, before anything contends with it.
struct TaskCost {
  Required<Rate> rate;
  // What multiplies is counted: of so many rows of the result. Null: nothing.
  double (*flops)(std::span<const Region> reads, std::span<const Region> writes,
                  int64_t rows) = nullptr;
  // Where a table says in the run which rows are meant: the share of its elements of the last read,
  // and of what is written, that is moved if all experts are as likely. Null: all.
  TaskShares (*shares)(const KindOperands& operands) = nullptr;
  // Until it moves anything: of a block by itself, or where `blocks` is not 0 of a kernel of so
  // many. Null: nothing.
  double (*start_us)(const KindOperands& operands, int blocks) = nullptr;
  double times = 1;  // MMAs, and bytes of sums: so many times as long as alone
  // Behind a product, in registers: how many picoseconds longer its block takes for each element
  // of the result (bench/results/followers_h200_x1.json, clusters: 4096 x 8192 x 4096 in tiles of
  // 128 x 256 takes 8, 25 and 24 us longer for a bias, a gelu and a silu, half of it and a swiglu
  // 9).
  double in_registers_ps = 0;
  bool counts_as_product = false;  // movers do it, and yet it is what a plan computes
};

// Which kernel of GPUs does such tasks.
enum class KernelKind : uint8_t {
  none,      // none yet: plans with them are refused
  gemm,      // that of tiles, or in its place a library's
  elements,  // that of movers, in its ring, element by element
  tiles,   // the same: its first sources stand side by side, what is added to them has all columns
  norm,    // of movers, row by row
  routed,  // the add warps of movers, by tables of the run
};

struct TaskKernels {
  Required<KernelKind> by;
  bool of_entries = false;  // gemm: of a partition, whose experts choose their matrices
  bool gathers = false;     // of these: rows of A are found by index
  // elements: what movers make of a task's sources in the place of their sum. A source with rows
  // of its own is one row, which is added to all.
  device::MoverMap map{};
  device::Follower follower{};  // the same in the GEMM kernel, of a tile that it has in registers
  const tasks::RoutedKernel* routed = nullptr;  // in plans with tables
  // It prepares tokens for tiles, or says what there is of them: so it is done in a kernel ahead of
  // these.
  bool ahead_of_tiles = false;
};

// What a kind is to a tile in registers, and so what it may follow there. src/plan/tile_task.h has
// the order.
enum class TileRole : uint8_t {
  none,        // nothing: it follows nothing
  product,     // makes a tile, or goes on with its K, or makes a second one beside it
  sum,         // adds to a product's tile: other ranges of K, then other ranks' tiles
  row,         // behind a product: adds one row to all
  activation,  // the same, and behind a row; nothing follows it
  gate,        // the same of two products
  norm,        // behind a sum that no tile has, by a mover
};

// Which tables of a partition it makes.
enum class PartitionStep : uint8_t { none, whole, counts, places, entries };

// Which rows of its result a task leaves.
enum class RowsLeft : uint8_t {
  all,
  chosen,  // those that choose an expert of the rank that they go to
  terms,   // sums, of tokens with a row here
};

struct TaskKind {
  Required<Worker> worker;
  TaskCost cost;
  TaskKernels kernels;
  Required<TileRole> in_tile;
  // Its last so many reads have rows of their own: every row of the result needs all of them. The
  // reads before these have the result's rows, all of them each or, stacked, one after another.
  uint16_t num_others = 0;
  bool stacks = false;
  ColumnsOf columns = ColumnsOf::first_read;
  // The reads do not say how many rows the result has: all that is written, once.
  bool rows_of_writes = false;
  std::string_view attribute = {};  // name of the positive number that it needs; empty: none
  std::string_view counts[2] = {};  // names of the whole numbers that it needs
  int64_t least_count = 1;          // of these
  // Reads that are tables, whole numbers, in a bit each from the first on; and whether all that it
  // writes are. Nothing else may be, but what is only moved from table to table.
  uint16_t reads_tables = 0;
  uint16_t reads_ids = 0;  // of these, what a caller may have chosen: of i64 too
  bool makes_tables = false, moves_tables = false;
  PartitionStep makes_partition = PartitionStep::none;
  RowsLeft leaves = RowsLeft::all;
  bool adds_terms = false;  // its reads are terms of sums, each rounded where it was made
  TaskFault (*fault)(std::span<const Region> reads);
  // The definition: some rows of the result, from what is read for them.
  void (*compute)(const tasks::Work& work);
  // What is wrong with the reads for what is written and the counts. Null: nothing.
  TaskFault (*fault_in_result)(const KindOperands& operands) = nullptr;

  // Whether a GPU may do it with what the task before it has left in registers. So may a gemm.
  bool follows_in_registers() const {
    return in_tile != TileRole::none && in_tile != TileRole::product;
  }

  // The result's size. The reads have no fault.
  int64_t rows(std::span<const Region> reads, std::span<const Region> writes) const {
    if (rows_of_writes) {
      int64_t rows = 0;
      for (const Region& write : writes) rows += write.rows();
      return rows;
    }
    if (!stacks) return reads[0].rows();
    int64_t rows = 0;
    for (const Region& read : reads.first(reads.size() - num_others)) rows += read.rows();
    return rows;
  }
  int32_t cols(std::span<const Region> reads, std::span<const Region> writes) const {
    switch (columns) {
      case ColumnsOf::first_read:
        return reads[0].cols();
      case ColumnsOf::last_read:
        return reads.back().cols();
      case ColumnsOf::rows_of_last_read:
        return reads.back().rows();
      case ColumnsOf::writes:
        return writes.empty() ? 0 : writes[0].cols();
    }
    return 0;
  }
};

#define STRETTO_ONE(name, text, meaning) +1
inline constexpr size_t kNumTaskKinds = 0 STRETTO_TASK_KINDS(STRETTO_ONE);
#undef STRETTO_ONE

// In the order of the list.
extern const TaskKind* const kTaskKinds[kNumTaskKinds];

}  // namespace stretto

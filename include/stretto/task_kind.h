// TaskKind: all that distinguishes one kind of task from another, as one row. Plans, the emulator,
// the simulation, the checker and GPUs ask the row. A kind is a line of the list below and a file
// of its own, src/tasks/<kind>.cpp, that defines its row: without one nothing links.
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
struct Work;  // src/tasks/work.h
}

// The least that does such tasks. It says which lanes may run them, and what the simulation
// charges.
enum class Worker : uint8_t {
  gemm_kernel,   // it multiplies: a compute lane, at the rate of its MMAs
  mover_kernel,  // it loads, computes and stores: any block lane, at the rate of memory
  copy_engine,   // it only moves: any lane but NCCL's, at the rate of memory and links
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

struct TaskKind {
  Worker worker;
  // Its last so many reads have rows of their own: every row of the result needs all of them. The
  // reads before these have the result's rows, all of them each or, stacked, one after another.
  uint16_t num_others = 0;
  bool stacks = false;
  ColumnsOf columns = ColumnsOf::first_read;
  // The reads do not say how many rows the result has: all that is written, once.
  bool rows_of_writes = false;
  // Whether a GPU may do it with what the task before it has left in registers. So may a gemm.
  bool follows_in_registers = false;
  std::string_view attribute = {};  // name of the positive number that it needs; empty: none
  std::string_view counts[2] = {};  // names of the whole numbers that it needs
  int64_t least_count = 1;          // of these
  bool has_kernel = true;           // GPUs can do it
  // Movers do it, and yet it is what a plan computes: simulations count it with products, not with
  // communication.
  bool counts_as_product = false;
  // Reads that are tables, whole numbers, in a bit each from the first on; and whether all that it
  // writes are. Nothing else may be, but what is only moved from table to table.
  uint16_t reads_tables = 0;
  uint16_t reads_ids = 0;  // of these, what a caller may have chosen: of i64 too
  bool makes_tables = false, moves_tables = false;
  TaskFault (*fault)(std::span<const Region> reads);
  // The definition: some rows of the result, from what is read for them.
  void (*compute)(const tasks::Work& work);
  // What multiplies is counted: of so many rows of the result. Null: nothing.
  double (*flops)(std::span<const Region> reads, std::span<const Region> writes,
                  int64_t rows) = nullptr;
  // What is wrong with the reads for what is written and the counts. Null: nothing.
  TaskFault (*fault_in_result)(const KindOperands& operands) = nullptr;
  // Where a table says in the run which rows are meant: the share of its elements of the last read,
  // and of what is written, that is moved if all experts are as likely. Null: all.
  TaskShares (*shares)(const KindOperands& operands) = nullptr;

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

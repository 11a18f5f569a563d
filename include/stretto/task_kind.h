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
#define STRETTO_TASK_KINDS(X)                              \
  X(gemm, "gemm", "one output tile")                       \
  X(reduce, "reduce", "fp32 sum in fixed order")           \
  X(copy, "copy", "move a region")                         \
  X(swiglu, "swiglu", "silu of one region times another")  \
  X(gelu, "gelu", "Gaussian error linear unit, tanh form") \
  X(silu, "silu", "sigmoid linear unit")                   \
  X(bias, "bias", "add one row to all")                    \
  X(norm, "norm", "divide rows by their root mean square")

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

struct TaskKind {
  Worker worker;
  // Its last so many reads have rows of their own: every row of the result needs all of them. The
  // reads before these have the result's rows, all of them each or, stacked, one after another.
  uint16_t num_others = 0;
  bool stacks = false;
  bool has_rows_as_columns = false;  // the result has a column for each row of the last read
  // Whether a GPU may do it with what the task before it has left in registers. So may a gemm.
  bool follows_in_registers = false;
  std::string_view attribute = {};  // name of the positive number that it needs; empty: none
  TaskFault (*fault)(std::span<const Region> reads);
  // The definition: some rows of the result, from what is read for them.
  void (*compute)(const tasks::Work& work);
  // What multiplies is counted: of so many rows of the result. Null: nothing.
  double (*flops)(std::span<const Region> reads, int64_t rows) = nullptr;

  // The result's size. The reads have no fault.
  int64_t rows(std::span<const Region> reads) const {
    if (!stacks) return reads[0].rows();
    int64_t rows = 0;
    for (const Region& read : reads.first(reads.size() - num_others)) rows += read.rows();
    return rows;
  }
  int32_t cols(std::span<const Region> reads) const {
    return has_rows_as_columns ? reads.back().rows() : reads[0].cols();
  }
};

#define STRETTO_ONE(name, text, meaning) +1
inline constexpr size_t kNumTaskKinds = 0 STRETTO_TASK_KINDS(STRETTO_ONE);
#undef STRETTO_ONE

// In the order of the list.
extern const TaskKind* const kTaskKinds[kNumTaskKinds];

}  // namespace stretto

// What each rank enqueues for a plan, as a text of its own: which kernel is which part of which
// lane, who makes each wait and notify, and every step of every stream in the order in which the
// host enqueues it. docs/program-format.md is its grammar.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "launch/rank_program.h"
#include "stretto/plan.h"

namespace stretto::cuda {

// X(enumerator, text, meaning): what becomes of an instruction of a kernel's block.
#define STRETTO_BLOCK_WORDS(X)                                                       \
  X(task, "task", "a gemm that begins a task of the GEMM kernel, or is one")         \
  X(goes_on, "goes-on", "a gemm that goes on with the sums of the one before it")    \
  X(beside, "beside", "a gemm whose product the task computes beside the first")     \
  X(follows, "follows", "what the task does to its tile before it stores it")        \
  X(sum, "sum", "a reduce that the tile's task makes before it stores")              \
  X(part, "part", "a reduce of the rank's part of a tile: a task without a product") \
  X(product, "product", "a gemm that whole products make up with others")            \
  X(move, "move", "a task of the mover kernel, or of movers in the GEMM kernel")     \
  X(wait, "wait", "the next task's wait, before it begins or goes on")               \
  X(late_wait, "late-wait", "a task's wait, made once its tile is computed")         \
  X(move_norm, "move-norm", "a norm of the sums of the task before, made with them") \
  X(move_wait, "move-wait", "a mover's wait, before its next task")                  \
  X(end_wait, "end-wait", "made behind the block's last task")                       \
  X(notify, "notify", "made by the task before it")

// X(enumerator, text, meaning): a step of a stream.
#define STRETTO_STEP_WORDS(X)                                                     \
  X(gemm, "gemm", "launches a GEMM kernel, or a library's products")              \
  X(move, "move", "launches a mover kernel")                                      \
  X(wait_kernel, "wait-kernel", "a kernel of one warp polls the counter")         \
  X(wait_value, "wait-value", "cuStreamWaitValue: the stream awaits the counter") \
  X(notify_kernel, "notify-kernel", "a kernel of one warp adds to the counter")   \
  X(notify_copy, "notify-copy", "a copy engine writes the counter's new value")   \
  X(copy, "copy", "transfers of a copy engine")                                   \
  X(collective, "collective", "NCCL's calls, or a kernel of the device language") \
  X(receive, "receive", "a kernel that receives what a GEMM kernel has sent")     \
  X(route, "route", "a partition that the kernel of the step before makes")       \
  X(record, "record", "records an event")                                         \
  X(await, "await", "the stream awaits an event of the rank")

#define STRETTO_ENUM(name, text, meaning) name,
enum class BlockWord : uint8_t { STRETTO_BLOCK_WORDS(STRETTO_ENUM) };
enum class StepWord : uint8_t { STRETTO_STEP_WORDS(STRETTO_ENUM) };
#undef STRETTO_ENUM

// An instruction of the plan: its lane on the listing's rank, its place there, and its own line.
struct ListedInstr {
  LaneKind kind = LaneKind::compute;
  uint16_t lane = 0;
  uint32_t position = 0;
  std::string text;
  bool operator==(const ListedInstr&) const = default;
};

struct ListedBlock {
  struct Line {
    BlockWord word = BlockWord::task;
    ListedInstr instr;
    bool operator==(const Line&) const = default;
  };
  LaneKind kind = LaneKind::compute;
  uint16_t lane = 0;
  std::vector<Line> lines;
  bool operator==(const ListedBlock&) const = default;
};

// `config`: of a GEMM kernel its configuration, "library" or "few-rows", of movers "own kernel",
// "pass", "partition" and the blocks of its clusters, or "in gemm".
struct ListedKernel {
  std::string config;
  std::vector<ListedBlock> blocks;
  bool operator==(const ListedKernel&) const = default;
};

struct ListedStream {
  LaneKind kind = LaneKind::compute;
  uint16_t lane = 0;
  bool operator==(const ListedStream&) const = default;
};

struct ListedStep {
  uint32_t stream = 0;
  StepWord word = StepWord::gemm;
  uint32_t index = 0;  // of a kernel or an event
  ListedInstr instr;   // of the others
  bool operator==(const ListedStep&) const = default;
};

struct ListedRank {
  std::vector<ListedKernel> gemms, moves;
  std::vector<ListedStream> streams;
  std::vector<ListedStep> steps;  // in the order in which they are enqueued
  bool operator==(const ListedRank&) const = default;
};

struct ProgramListing {
  std::string op;
  std::vector<ListedRank> ranks;
  bool operator==(const ProgramListing&) const = default;
};

// Of a plan that GPUs can run (why_not_on_cuda()) whose streams can await counters.
ProgramListing list_programs(const Plan& plan, const std::vector<RankProgram>& programs);

// parse_listing(print(l)) is l. Throws UsageError "FILE:LINE:COLUMN: expected ..., found ...".
std::string print(const ProgramListing& listing);
ProgramListing parse_listing(std::string_view text, std::string_view file_name = "program");

}  // namespace stretto::cuda

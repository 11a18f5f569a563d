// Plan: the program of every rank. Everything else in Stretto produces or consumes one.
//
// A plan has buffers, signals and lanes. A lane is a straight-line program bound to one resource of
// one rank. Instructions of a lane start and finish in order. Lanes run concurrently and are
// ordered only by waits and notifies, boundaries and collectives.
//
// Tasks read all their regions, then write. What they write has the type of the written buffer.
// task_kind.h says of each kind of task what follows from it.
//   gemm A.. B -> C..       C = A * B^T in fp32, rounded once. A: regions stacked by rows; B: one
//                           region [n, k]. C: see "writes".
//   reduce X.. -> Y..       Y = sum of the X in the order listed, in fp32, rounded once.
//   copy X -> Y..           Y = X. A mover's work: loads once, stores to every Y.
//   restore X.. R.. -> Y..  Y = the X side by side, which are as wide as Y together, plus the R,
//                           which are as Y; in fp32, in the order listed, rounded once.
//   swiglu G U -> Y..       Y = silu(G) * U element by element, in fp32, rounded once.
//   gelu X -> Y..           Y = gelu(X) in its tanh form; as swiglu.
//   silu X -> Y..           Y = X / (1 + e^-X); as swiglu.
//   bias X B -> Y..         Y = X + B, one row that is added to all; as swiglu.
//   norm eps=E X W -> Y..   Y = X / sqrt(mean(X^2) + E) * W, the mean being of each row of X over
//                           all its columns and W one row; in fp32, rounded once.
//   route ...                Which row of which expert's product each choice of a token gets, and
//                           what is done with such rows: docs/plan-format.md, "Routing".
//   embed each=S IDS W -> Y..       Y = of each row of IDS, and each of the tables of S rows that
//                           W has, the sum of the rows that are picked; embed_mean: their mean.
//   top_k groups=G best=N S -> IDS  the experts of the highest scores of each row; biased_top_k,
//                           softmax_gate, sigmoid_gate: docs/plan-format.md, "Routers".
//   collective KIND ID X.. -> Y..   this rank's part of collective ID (see collective_form.h).
//   deliver X..             hands X to the caller: a read that must precede the end of the run, for
//                           outputs that other ranks write.
// Writes: the regions on the right are stacked by rows until the task's rows are covered; further
// regions start again at the first row (replicas). So one tile can go to two owners, or to all.
// Only collectives may write what they read.
//
// A task that is `fused` goes on, on a GPU, with what the task before it on its lane has left in
// registers, as a part of the same task there. What stays in registers is never in memory, so
// nobody else may read it. What a plan computes does not depend on the word:
//   gemm        with the next range of K of the same tile; or with as many columns of another B,
//               for the same rows of A, which a swiglu then takes
//   reduce      with the gemms whose sums it adds, of ranges of K or, itself among them, of ranks;
//               or with the reduce over ranges of K
//   bias, gelu, silu, swiglu   with the product, its sum over ranges of K, or bias before it
//   norm        with the reduce or restore that makes its rows, whose sums are stored as well
//
// Synchronisation
//   wait S >= N [lag L]     acquire. Blocks until this rank's counter S has come to N of what the
//                           run L runs ago notifies (L = 0: this run). With lag, passes in the
//                           first L runs. "Epochs" below says which total that is.
//   notify S@RANK += N      release of everything this lane did before, and of everything that it
//                           had acquired; then adds N to the counter S in RANK's memory.
//   boundary ID             kernel boundary: a barrier among the compute lanes of this rank, which
//                           all list the same boundaries in the same order.
//
// Epochs. A plan runs many times. On one rank runs are stream-ordered: every lane of run e+1 starts
// after every lane of run e on that rank has ended. Different ranks are not ordered. Before a run
// the caller has written the inputs of its rank and has finished reading the previous outputs.
// A buffer or signal with `copies` C is C separate instances; run e uses instance e mod C.
// Counters only grow, so a wait is for a total: with T the sum of all notifies of that rank's S in
// one run, `wait S >= N lag L` in run e asks instance (e-L) mod C for floor((e-L) / C) * T + N,
// whichever runs have notified it. N is at most T: more would be for a run that is not the one
// named, and the checker refuses it.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stretto/collective_form.h"
#include "stretto/operator.h"
#include "stretto/region.h"
#include "stretto/task_kind.h"

namespace stretto {

// What print() writes. Version 1, which lacked `fused`, is read as fuse_tasks() completes it.
inline constexpr int kPlanVersion = 2;

// X(enumerator, text, meaning)
#define STRETTO_BUFFER_ROLES(X)                              \
  X(input, "input", "written by the caller before each run") \
  X(output, "output", "read by the caller after each run")   \
  X(local, "local", "this rank's own scratch memory")        \
  X(symmetric, "symmetric", "same shape on every rank, peers write it")

#define STRETTO_LANE_KINDS(X)                                      \
  X(compute, "compute", "a block of the GEMM kernel; takes an SM") \
  X(comm, "comm", "a communication block; takes an SM")            \
  X(copy, "copy", "a copy-engine queue")                           \
  X(nccl, "nccl", "a stream of NCCL collectives")

#define STRETTO_OPCODES(X)                                           \
  X(wait, "wait", "acquire: block until a counter is reached")       \
  X(notify, "notify", "release: add to a counter of some rank")      \
  X(boundary, "boundary", "barrier among this rank's compute lanes") \
  STRETTO_TASK_KINDS(X)                                              \
  X(collective, "collective", "this rank's part of a collective")    \
  X(deliver, "deliver", "hand an output region to the caller")

#define STRETTO_ENUM(name, text, meaning) name,
enum class BufferRole : uint8_t { STRETTO_BUFFER_ROLES(STRETTO_ENUM) };
enum class LaneKind : uint8_t { STRETTO_LANE_KINDS(STRETTO_ENUM) };
enum class Opcode : uint8_t { STRETTO_OPCODES(STRETTO_ENUM) };
#undef STRETTO_ENUM

// What an instruction is, whatever kind of task: the row of the kind says the rest.
enum class OpForm : uint8_t { wait, notify, boundary, task_kind, collective, deliver };

// The row of a kind of task; null for other instructions.
inline const TaskKind* kind_of(Opcode op) {
  const size_t number = static_cast<size_t>(op) - (static_cast<size_t>(Opcode::boundary) + 1);
  return number < kNumTaskKinds ? kTaskKinds[number] : nullptr;
}

constexpr OpForm form_of(Opcode op) {
  if (op <= Opcode::boundary) return static_cast<OpForm>(op);
  if (op == Opcode::collective) return OpForm::collective;
  return op == Opcode::deliver ? OpForm::deliver : OpForm::task_kind;
}

std::string_view to_string(BufferRole value);
std::string_view to_string(LaneKind value);
std::string_view to_string(Opcode value);
std::string_view to_string(CollectiveKind value);

// Rows that a run's routing gives out. They come in entries of so many rows, each of one expert;
// which expert, and which of its rows exist, tables say that a run makes. There are as many entries
// as any routing needs, so whose rows an entry has is not known to a plan, but where they lie is:
// different entries are different rows. What rows without a choice hold is nobody's to read.
struct Partition {
  std::string name;
  int32_t entries = 0, rows = 0;  // of an entry
  int32_t blocks = 1;             // of as many entries, each filled from its first one on
  // Entries of a block that experts fill which are all as likely. For simulations.
  int32_t expected = 0;

  int32_t entries_of_block() const { return entries / blocks; }
  // Whether the entry that begins with this row is expected to have a choice.
  bool is_expected(int32_t row) const { return row / rows % entries_of_block() < expected; }
  bool operator==(const Partition&) const = default;
};

struct Buffer {
  std::string name;
  DType dtype = DType::bf16;
  BufferRole role = BufferRole::local;
  int32_t rows = 0, cols = 0;  // of every rank
  int32_t sharded_rows = 0;    // > 0: rank r holds only min(rows, sharded_rows - r * rows) rows
  uint8_t copies = 1;          // instances that runs alternate between
  int16_t partition = -1;      // whose entries its rows are; -1: none
  int32_t sharded_cols = 0;    // as sharded_rows, of columns

  int32_t rows_on(int rank) const;
  int32_t cols_on(int rank) const;
  bool operator==(const Buffer&) const = default;
};

// An array of counters, one set in every rank's memory: "slots.0" .. "slots.<count-1>".
struct SignalArray {
  std::string name;
  int32_t count = 0;
  uint8_t copies = 1;
  bool operator==(const SignalArray&) const = default;
};

struct SignalRef {
  uint16_t array = 0;
  int32_t index = 0;
  bool operator==(const SignalRef&) const = default;
};

struct Instr {
  Opcode op = Opcode::wait;
  CollectiveKind collective = CollectiveKind::all_gather;
  uint8_t lag = 0;             // wait: how many runs back; see kernel()
  bool fused = false;          // tasks of a kind: goes on with the task before it in registers
  int32_t tile = -1;           // tasks of a kind: number shown in text and diagnostics
  int32_t id = 0;              // collective, boundary; see attribute()
  SignalRef signal;            // wait, notify
  uint16_t rank = 0;           // notify: whose counter
  uint16_t team = 0;           // collective: ranks of each team that it joins; 0: it joins all
  int64_t amount = 0;          // wait: threshold; notify: increment
  uint32_t first_operand = 0;  // tasks: operands are reads, then writes
  uint16_t num_reads = 0, num_writes = 0;

  // The number that a task of its kind needs, kept where others have an id; a collective's, which
  // has an id, where others have an amount.
  float attribute() const {
    return std::bit_cast<float>(op == Opcode::collective ? static_cast<int32_t>(amount) : id);
  }
  void set_attribute(float value) {
    if (op == Opcode::collective)
      amount = std::bit_cast<int32_t>(value);
    else
      id = std::bit_cast<int32_t>(value);
  }
  // The whole numbers that a task of its kind needs, kept where others have an amount and an id.
  int64_t count(int i) const { return i == 0 ? amount : id; }
  void set_count(int i, int64_t value) {
    if (i == 0) {
      amount = value;
    } else {
      id = static_cast<int32_t>(value);
    }
  }
  // A collective that a kernel of the graph's makes: which of them, counted from 1; 0: none. It is
  // kept where waits have a lag.
  size_t kernel() const { return op == Opcode::collective ? lag : 0; }
  void set_kernel(size_t number) { lag = static_cast<uint8_t>(number); }
  const TaskKind* kind() const { return kind_of(op); }  // null: no kind of task
  OpForm form() const { return form_of(op); }
  bool is_sync() const { return op == Opcode::wait || op == Opcode::notify; }
  bool is_task() const { return !is_sync() && op != Opcode::boundary; }
  bool operator==(const Instr&) const = default;
};

struct Lane {
  LaneKind kind = LaneKind::compute;
  uint16_t rank = 0;
  uint16_t index = 0;  // among the lanes of its kind on its rank
  std::vector<Instr> instrs;
  bool operator==(const Lane&) const = default;
};

// What compute lanes have between two boundaries, where it is multiplied as whole products: by a
// library, or by the kernel of few rows.
struct LibraryKernel {
  int32_t behind = 0;     // so many boundaries
  int algorithm = 0;      // which of those that a library proposes for a shape
  bool few_rows = false;  // no library: see Plan::few_rows_gemms
  bool operator==(const LibraryKernel&) const = default;
};

// Where an instruction stands.
struct InstrRef {
  uint32_t lane = 0;
  uint32_t pos = 0;
  bool operator==(const InstrRef&) const = default;
};

struct Plan {
  Operator op;
  // Of a run of fewer rows, which at_rows() writes out (serve.h): the rows of the plan that it is
  // one of. Ranks enqueue that plan's program, whatever rows a run has. 0: a plan of its own.
  int64_t run_of = 0;
  std::string schedule;  // canonical schedule text; informative
  int sms = 0;           // SMs of a GPU: block lanes of a rank that can be resident together
  // A GPU's library multiplies what the gemms between two boundaries of a rank make up; besides,
  // only the simulation cares.
  bool library_gemms = false;
  int library_algorithm = 0;  // with library_gemms: which of those that it proposes for a shape
  // With library_gemms: it is no library, but a kernel of few rows that multiplies them. Where only
  // a collective takes what it has multiplied, it sends it to where that awaits it. What tasks read
  // and write, and in which order, is the same: the collective's kernel waits for the data itself,
  // so it may be there before the product has ended, but takes nothing that was not multiplied. So
  // only what runs plans and the simulation care.
  bool few_rows_gemms = false;
  // Without library_gemms: it multiplies these, and the GEMM kernel the others. Ascending.
  std::vector<LibraryKernel> library_kernels;
  // On a GPU kernels of the device language make the collectives, not NCCL, and add in rank order,
  // as the emulator then does.
  bool low_latency_collectives = false;
  // 2: on a GPU the compute lanes of a rank are clusters, two by two in their order, that load what
  // their tiles read of B once for both, and go on together. So the lanes of a cluster have nothing
  // but waits, notifies, gemms of one region of A and their sums; and one has the waits and gemms
  // of the other, but for the rows of A and where results go. With that neither depends on
  // anything that it does not wait for itself: lanes are lanes to all others.
  int cluster = 1;
  std::vector<Partition> partitions;
  std::vector<Buffer> buffers;
  std::vector<SignalArray> signals;
  std::vector<Lane> lanes;       // ordered by rank, kind, index
  std::vector<Region> operands;  // of all instructions

  int ranks() const { return op.ranks; }
  // The ranks that a rank's part of a collective joins with it: so many, from the first on.
  struct Joined {
    int first = 0, count = 0;
    bool has(int rank) const { return rank >= first && rank < first + count; }
  };
  Joined joined_by(const Instr& collective, int rank) const {
    if (collective.team == 0) return {0, ranks()};
    return {rank - rank % collective.team, collective.team};
  }
  // Whether tasks go by whole numbers that a run finds in buffers.
  bool has_tables() const;
  bool any_library() const { return library_gemms || !library_kernels.empty(); }
  // The library's algorithm for what compute lanes have behind so many boundaries; nothing: the
  // GEMM kernel multiplies it.
  std::optional<int> library_at(size_t behind) const {
    if (library_gemms) return library_algorithm;
    const LibraryKernel* const kernel = find_kernel(behind);
    return kernel == nullptr ? std::nullopt : std::optional<int>(kernel->algorithm);
  }
  // Whether it is the kernel of few rows, in a library's place: library_at() then says 0.
  bool few_rows_at(size_t behind) const {
    if (library_gemms) return few_rows_gemms;
    const LibraryKernel* const kernel = find_kernel(behind);
    return kernel != nullptr && kernel->few_rows;
  }
  bool any_few_rows() const;
  std::span<const Region> reads(const Instr& instr) const {
    return {operands.data() + instr.first_operand, instr.num_reads};
  }
  std::span<const Region> writes(const Instr& instr) const {
    return {operands.data() + instr.first_operand + instr.num_reads, instr.num_writes};
  }
  KindOperands operands_of(const Instr& instr) const {
    return {reads(instr), writes(instr), {instr.count(0), instr.count(1)}, ranks()};
  }
  // The partition that the buffer's rows are entries of; null: they are none.
  const Partition* partition_of(const Region& region) const {
    const int16_t of = buffers[region.buffer].partition;
    return of < 0 ? nullptr : &partitions[static_cast<size_t>(of)];
  }
  std::optional<uint16_t> find_buffer(std::string_view name) const;
  size_t num_instrs() const;

 private:
  const LibraryKernel* find_kernel(size_t behind) const;  // of library_kernels
};

// How a write region of a task lines up with the task's rows: the region holds rows
// [row, row + region.rows()) of the result; see "Writes" above.
struct Placed {
  Region region;
  int32_t row = 0;
};
std::vector<Placed> placed_writes(const Plan& plan, const Instr& instr);

// Throws UsageError naming the first structural fault (ids out of range, shapes of operands that do
// not fit the opcode, lanes out of order). Region bounds are the checker's to report.
void validate(const Plan& plan);

// Says of every task whether it is fused, as far as a GPU can.
void fuse_tasks(Plan& plan);

// "rank 2 compute 17", "slots.5", "slots@3[0:128,0:256]"
std::string describe(const Lane& lane);
std::string describe(const Plan& plan, const SignalRef& signal);
std::string describe(const Plan& plan, const Region& region);

// Exact text form; docs/plan-format.md is its grammar. parse(print(p)) prints the same.
std::string print(const Plan& plan);
// One instruction as its line in the text form, without indentation.
std::string print(const Plan& plan, const Lane& lane, const Instr& instr);

// Where the parts of a plan stand in the text that it was read from: lines, counted from 1. Beside
// the plan, and true of it as long as no instruction comes or goes.
struct PlanLines {
  struct Of {
    uint32_t head = 0;  // the line that begins the lane
    std::vector<uint32_t> instrs;
  };
  std::vector<uint32_t> buffers, signals;  // by declaration
  std::vector<Of> lanes;

  // Past the last instruction of its lane: the lane's own line.
  uint32_t of(const InstrRef& where) const;
};

// Throws UsageError "FILE:LINE:COLUMN: expected ..., found ...". `lines` is filled unless it is
// null.
Plan parse_plan(std::string_view text, std::string_view file_name = "plan",
                PlanLines* lines = nullptr);

}  // namespace stretto

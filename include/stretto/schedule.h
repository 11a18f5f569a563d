// Schedule: one point of the space of overlap strategies. Small, printable, parsable, hashable.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stretto/machine.h"
#include "stretto/operator.h"

namespace stretto {

// Each coordinate is one table X(enumerator, text, what it means).
#define STRETTO_GRANULARITIES(X)                                                           \
  X(whole, "whole", "the whole tensor is communicated at once")                            \
  X(chunk, "chunk", "each shard in `chunks` row blocks")                                   \
  X(waves, "waves", "groups of tiles that run in consecutive waves of the SMs (`groups`)") \
  X(slice, "slice", "a block of tile rows, all columns, for one destination")              \
  X(tile, "tile", "one output tile (reductions) or one tile's stripe of input rows (all-gather)")

#define STRETTO_ORDERS(X)                                                                       \
  X(plain, "plain", "row blocks in order, swizzled for L2")                                     \
  X(own_first, "own-first", "own shard first, then the next ranks' in turn")                    \
  X(arrival, "arrival", "in the order in which the movers deliver the input")                   \
  X(peer_staggered, "peer-staggered", "next rank's tiles first, own last")                      \
  X(interleaved, "interleaved",                                                                 \
    "a few tile rows of every owner in turn, the next rank's first; a gather's own before all") \
  X(node_then_local, "node-then-local", "what crosses nodes first (reductions) or last (gather)")

#define STRETTO_MOVERS(X)                                                  \
  X(epilogue, "epilogue", "the computing block stores to the peer itself") \
  X(comm_blocks, "comm-blocks", "dedicated blocks push (`comm-sms`)")      \
  X(copy_engine, "copy-engine", "copy engines push")                       \
  X(nccl, "nccl", "NCCL collectives on a stream of their own")

#define STRETTO_SYNCS(X)                                                   \
  X(event, "event", "kernel boundaries and stream events")                 \
  X(counter, "counter", "one counter for everything a consumer waits for") \
  X(flag, "flag", "one flag for each producing task")

#define STRETTO_REDUCTIONS(X)                                                      \
  X(none, "none", "nothing to reduce (all-gather)")                                \
  X(slots, "slots", "owner adds one slot per source in fp32, in rank order")       \
  X(nccl, "nccl", "inside NCCL's collective")                                      \
  X(one_shot, "one-shot", "every rank gets all partial sums and adds them itself") \
  X(two_shot, "two-shot", "owner adds its slots in rank order and sends the sum to all")

#define STRETTO_REUSES(X)                                                               \
  X(double_buffer, "double", "symmetric buffers alternate between two copies by epoch") \
  X(ack, "ack", "one copy; its readers acknowledge before the next epoch's writers start")

#define STRETTO_ROW_COUNTS(X)                                                        \
  X(fixed, "fixed", "exactly the operator's; tiles may have rows of several owners") \
  X(bucket, "bucket", "the operator's or fewer in any run; tiles are cut at owners")

#define STRETTO_OWN_ROWS(X)                                        \
  X(direct, "direct", "where they lie, as soon as the run begins") \
  X(gathered, "gathered",                                          \
    "as those of others: movers write them too, so that all tiles" \
    " run in step")

#define STRETTO_STARTS(X)                                \
  X(tile, "tile", "as soon as the rows of it are there") \
  X(wave, "wave",                                        \
    "when the rows of all tiles are there that the lanes begin with it: they stay in step")

#define STRETTO_GEMMS(X)                                                                      \
  X(tiles, "tiles", "our kernel, tile by tile as the plan's tasks say")                       \
  X(library, "library",                                                                       \
    "cuBLAS, for all that a kernel's tasks make up; of experts, a kernel that deals out its " \
    "tiles")                                                                                  \
  X(few_rows, "few-rows",                                                                     \
    "a kernel of ours for few rows of dense products, whose blocks send terms of a sum "      \
    "straight to where a collective awaits them")

#define STRETTO_COLLECTIVES_BY(X)   \
  X(nccl, "nccl", "NCCL's kernels") \
  X(low_latency, "low-latency", "the device language's: data says itself that it came")

#define STRETTO_PERMUTES(X)                                               \
  X(load, "load", "tiles pick their rows of tokens while they load them") \
  X(pass, "pass", "movers put rows into the partition's order, where tiles load whole boxes")

// What a schedule says, in the order of its text. `absent` is the value that texts leave out; "":
// they leave out none. Schedules that are `apart` in a coordinate are simulated wrong in ways of
// their own, so what was measured of one says little of the other (tune/near_measurements.cpp).
//   CHOICE(type, field, key, absent, apart or alike, table, what it asks)
//   NUMBER(field, key, absent, apart or alike, what it means): 1 and more than that are apart
//   OTHER(field, key, absent, what it means): a value with a form of its own (schedule_text.cpp)
#define STRETTO_COORDINATES(CHOICE, NUMBER, OTHER)                                                 \
  CHOICE(Granularity, granularity, "granularity", "", apart, STRETTO_GRANULARITIES,                \
         "what is communicated at once")                                                           \
  CHOICE(Order, order, "order", "", alike, STRETTO_ORDERS, "which tiles are computed first")       \
  CHOICE(Mover, mover, "mover", "", apart, STRETTO_MOVERS, "who moves the data")                   \
  CHOICE(Sync, sync, "sync", "", alike, STRETTO_SYNCS, "how consumers learn of it")                \
  CHOICE(Reduction, reduction, "reduction", "", alike, STRETTO_REDUCTIONS,                         \
         "where partial sums meet")                                                                \
  CHOICE(Reuse, reuse, "reuse", "", alike, STRETTO_REUSES, "how the next run may overwrite")       \
  OTHER(partials, "partials", "", "type in which partial sums travel: bf16, fp16, fp32")           \
  OTHER(tile, "tile", "", "tile shape, rows x columns: 128x256")                                   \
  NUMBER(swizzle, "swizzle", "", alike, "row tiles that a column sweep covers before it moves on") \
  NUMBER(chunks, "chunks", "", alike, "row blocks a shard is cut into (granularity chunk)")        \
  OTHER(groups, "groups", "",                                                                      \
        "sizes of groups: of waves that travel at once (granularity waves), of chunks that a "     \
        "kernel computes (granularity chunk, sync event)")                                         \
  NUMBER(comm_sms, "comm-sms", "", alike,                                                          \
         "SMs taken from compute for communication blocks and reducers")                           \
  NUMBER(split_k, "split-k", "1", apart,                                                           \
         "ranges of K that a tile is computed in, side by side, then added in fp32")               \
  NUMBER(k_phases, "k-phases", "1", apart,                                                         \
         "ranges of K in which rows are gathered; tiles begin when the first is there. Before "    \
         "a2a-gemm as many as ranks: tiles begin with what their own has")                         \
  CHOICE(OwnRows, own, "own", "direct", apart, STRETTO_OWN_ROWS,                                   \
         "where a gather's tiles take the rank's own rows from")                                   \
  CHOICE(Start, start, "start", "tile", apart, STRETTO_STARTS, "when a gather's tile begins")      \
  NUMBER(cluster, "cluster", "1", apart,                                                           \
         "lanes that compute tiles of the same columns side by side: 2 load B once for both "      \
         "(gathers, mover comm-blocks, granularity tile)")                                         \
  CHOICE(RowCount, rows, "rows", "fixed", alike, STRETTO_ROW_COUNTS,                               \
         "how many rows a run may have")                                                           \
  CHOICE(GemmBy, gemm, "gemm", "tiles", apart, STRETTO_GEMMS, "who multiplies")                    \
  NUMBER(algorithm, "algorithm", "0", alike,                                                       \
         "which of the 8 that cuBLAS may propose for a product, its first 0 (gemm library)")       \
  CHOICE(CollectivesBy, collectives, "collectives", "nccl", apart, STRETTO_COLLECTIVES_BY,         \
         "who makes those of mover nccl")                                                          \
  OTHER(kernel, "kernel", "none",                                                                  \
        "a kernel that the graph names, in the place of NCCL's (mover nccl)")                      \
  CHOICE(Permute, permute, "permute", "load", alike, STRETTO_PERMUTES,                             \
         "who puts tokens that choose experts into their order")

// Those whose values have names, and those whose values are numbers or types.
#define STRETTO_NO_COORDINATE(...)
#define STRETTO_CHOICES(X) STRETTO_COORDINATES(X, STRETTO_NO_COORDINATE, STRETTO_NO_COORDINATE)
#define STRETTO_PARAMETERS(NUMBER, OTHER) STRETTO_COORDINATES(STRETTO_NO_COORDINATE, NUMBER, OTHER)

#define STRETTO_ENUM(name, text, meaning) name,
#define STRETTO_TYPE(type, field, key, absent, kinds, table, asks) \
  enum class type : uint8_t { table(STRETTO_ENUM) };               \
  std::string_view to_string(type value);
STRETTO_CHOICES(STRETTO_TYPE)
#undef STRETTO_TYPE
#undef STRETTO_ENUM

struct Schedule {
  Granularity granularity = Granularity::whole;
  Order order = Order::plain;
  Mover mover = Mover::nccl;
  Sync sync = Sync::event;
  Reduction reduction = Reduction::none;
  Reuse reuse = Reuse::double_buffer;
  DType partials = DType::bf16;  // type in which partial sums travel
  int tile_m = 128, tile_n = 256;
  int swizzle = 8;  // row tiles a column sweep covers before it moves on; 1 = row by row
  int chunks = 1;   // row blocks a shard is cut into (granularity chunk)
  // Sizes of groups: in waves (granularity waves; empty: chosen), or in chunks, those that a kernel
  // computes (granularity chunk with events; empty: one by one).
  std::vector<int> groups;
  int comm_sms = 0;  // SMs taken from compute for communication blocks and reducers
  int split_k = 1;   // ranges of K that a tile is computed in, side by side, and then added
  int k_phases = 1;  // ranges of K in which rows or columns come; tiles begin with the first
  OwnRows own = OwnRows::direct;  // where a gather's tiles take the rank's own rows from
  Start start = Start::tile;      // when a gather's tile begins
  int cluster = 1;  // lanes that compute side by side, on the same columns: 2 load B once for both
  RowCount rows = RowCount::fixed;  // what a run may have (serve.h)
  GemmBy gemm = GemmBy::tiles;      // who multiplies
  int algorithm = 0;  // which of those that cuBLAS proposes for a product's shape (gemm=library)
  CollectivesBy collectives = CollectivesBy::nccl;  // who makes those of mover=nccl
  std::string kernel;               // of the graph's, which makes them instead; empty: none
  Permute permute = Permute::load;  // who puts tokens that choose experts into their order

  bool operator==(const Schedule&) const = default;
};

// Ranges of K begin at multiples of this.
inline constexpr int kSplitStep = 64;

// Blocks of a cluster (`cluster`): a pair.
inline constexpr int kMostClustered = 2;

// collectives=low-latency: at most so many ranks, of one node, whose parts, and rows where memory
// says how many, are multiples of so many bytes.
inline constexpr int kMostLowLatencyRanks = 64, kLowLatencyBytes = 16;

// gemm=few-rows: its kernel (device/few_rows_task.h) has columns and K in pieces of so many bytes.
inline constexpr int kFewRowsBytes = 16;

// gemm=library: cuBLAS is asked to propose so many algorithms, its own choice first.
inline constexpr int kMostAlgorithms = 8;

// Canonical text: every coordinate as key=value, comma separated, no blanks; `split-k` and
// `k-phases` only when they are not 1, `own` only when it is not direct, `start` only when it is
// not tile, `cluster` only when it is not 1, `rows` only when it is not fixed, `gemm` only when it
// is not tiles, `algorithm` only when it is not 0, `collectives` only when they are not NCCL's,
// `kernel` only where there is one, `permute` only when it is not load. parse(print) = same.
std::string to_string(const Schedule& schedule);
// A canonical text, or the name of a preset or a system (schedule/systems.h) followed by changes:
// "tiles,tile=64x128,comm-sms=4". `op` and `machine` give the preset its defaults. `words`: what
// else the caller takes in the place of a text, to be listed with the presets; they take no
// changes. Throws UsageError naming every bad part at once.
Schedule parse_schedule(std::string_view text, const Segment& op, const Machine& machine,
                        std::span<const std::string_view> words = {});

// All reasons why this schedule cannot serve the operator on the machine; empty when it can.
std::vector<std::string> legal(const Segment& op, const Schedule& schedule, const Machine& machine);

// Same inputs give the same bits in every run, and the same bits as every other deterministic
// schedule with the same `partials` and `split-k` and one of K's phases (the emulator adds up the
// ranges of tiles that are computed in phases; GPUs go on adding to the same registers). With
// gemm=library a schedule repeats itself only: cuBLAS's order goes by the shape of each product.
// NCCL's reductions choose their order, so they are not; low-latency ones add in rank order.
bool is_deterministic(const Schedule& schedule);

// A split has at most so many parts.
inline constexpr int kMostParts = 16;

// That of an edge at no product: an output that is gathered.
struct EdgeSchedule {
  std::string name;               // of its segment
  Mover mover = Mover::epilogue;  // that: the lanes that have the rows push them
  bool operator==(const EdgeSchedule&) const = default;
};

// The schedules of an operator: one for each of its products, in the order of its segments; and
// into how many parts its rows are split, one of which communicates while the next one computes.
struct OperatorSchedule {
  OperatorSchedule() = default;
  OperatorSchedule(const Schedule& one) : products{one} {}  // NOLINT: of an operator of one product
  std::vector<Schedule> products;
  std::vector<std::string> names = {};   // of their segments; none of an operator of one product
  int split = 1;                         // parts of the rows
  std::vector<EdgeSchedule> edges = {};  // in the order of segments; none that is by epilogue
  Mover mover_of_edge(std::string_view segment) const;
  const Schedule& first() const { return products.front(); }
  bool operator==(const OperatorSchedule&) const = default;
};
// One product has its canonical text, several "up:TEXT/down:TEXT", with "split=2/" before it where
// there are parts, and "/out:mover=copy-engine" behind it where an edge has a mover of its own.
std::string to_string(const OperatorSchedule& schedule);
// Words that '/' separates, later ones over earlier ones: "TEXT" is for every product,
// "SEGMENT:TEXT", once for each, for that one; TEXT as parse_schedule() reads it, of edges at no
// product "mover=MOVER"; "split=2", wherever it stands, is for the operator, and presets then
// choose for its parts. Throws UsageError naming every bad word at once.
OperatorSchedule parse_schedules(std::string_view text, const Operator& op, const Machine& machine,
                                 std::span<const std::string_view> words = {});
// The same, and what a person should know of it beside the text: which point a system's name
// stands for, and which products of a preset by a library's kernels are by tiles, since only these
// serve them. Empty where the text says all. `rows` is what runs will have, which the caller sets:
// where that is fewer, no name brings a split, which is of all rows.
struct NamedSchedule {
  OperatorSchedule schedule;
  std::string reason = {};
};
NamedSchedule read_schedules(std::string_view text, const Operator& op, const Machine& machine,
                             std::span<const std::string_view> words = {},
                             RowCount rows = RowCount::fixed);
// All reasons why these cannot serve the operator, each with its segment where there are several.
std::vector<std::string> legal(const Operator& op, const OperatorSchedule& schedule,
                               const Machine& machine);
bool is_deterministic(const OperatorSchedule& schedule);
// Throws InternalError where the schedule is of an operator with other products.
void check_products(const Operator& op, const OperatorSchedule& schedule);

struct Preset {
  std::string_view name;
  std::string_view stands_for;  // the systems that it represents
  std::string_view source;      // paper or repository
  std::string_view idea;        // one line
  Schedule (*make)(const Segment& op, const Machine& machine);
};
std::span<const Preset> presets();
// The preset of every product, for so many parts of the rows. What a library's kernels cannot make
// as the operator has it is by tiles.
OperatorSchedule schedule_of(const Preset& preset, const Operator& op, const Machine& machine,
                             int split = 1);
// Throws UsageError listing the names, and `words`, which the caller takes besides.
const Preset& find_preset(std::string_view name, std::span<const std::string_view> words = {});

}  // namespace stretto

// Operator: an operator as stages over tensors that ranks hold in parts. Communication is not
// written: where a stage needs a tensor held otherwise than it was made, there is an edge.
//
//   graph mlp m h f           a name and sizes; the first counts rows, which serving changes
//   input x [m, h] rows       what the caller gives, and how ranks hold it; so wg, wu and wd
//   g = gemm x wg             stages, each tensor made before its use; so `u = gemm x wu`,
//                             `a = swiglu g u`, `y = gemm a wd`
//   output y rows             what the caller gets, and how ranks hold it
//
// `team tp 4` cuts the ranks into teams of 4, and `cols of tp` deals a tensor to the ranks of each.
// What stages multiply rows with, or add to them, every team has; rows are dealt to the teams, a
// block each, so that own rows in a team are own rows among all ranks.
//
// docs/graph-format.md is the grammar. Weights are [N, K] as in a PyTorch linear. A tensor's sizes
// are global; `rows` deals blocks of ceil(rows / ranks) rows, the last of which may be short or
// empty, and `cols` blocks of columns (ColShards).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "stretto/dtype.h"
#include "stretto/edge_kernel.h"
#include "stretto/held.h"
#include "stretto/segment.h"

namespace stretto {

// X(enumerator, text, operands, goes, meaning). What `goes` by_rows makes each row of the rows of
// the same number. What goes by_ids makes or takes indices of a run, or weights of what they name.
#define STRETTO_STAGES(X)                                                                          \
  X(gemm, "gemm", 2, by_rows, "A [m, k] times the transpose of B [n, k]")                          \
  X(swiglu, "swiglu", 2, by_rows, "silu(G) * U, element by element")                               \
  X(gelu, "gelu", 1, by_rows, "GELU of every element, in its tanh form")                           \
  X(silu, "silu", 1, by_rows, "x * sigmoid(x) of every element")                                   \
  X(bias, "bias", 2, by_rows, "X with the row B [1, n] added to every row")                        \
  X(add, "add", 2, by_rows, "the sum of two tensors, a residual for example")                      \
  X(norm, "norm", 2, by_rows,                                                                      \
    "RMSNorm of every row, times the row W [1, n]; eps=1e-06 unless given")                        \
  X(grouped, "grouped", 3, by_ids,                                                                 \
    "X times the matrix of the stack W that each of IDS [m, k] names")                             \
  X(permute, "permute", 2, by_ids,                                                                 \
    "rows of X in the order of their experts: of each choice of IDS")                              \
  X(weigh, "weigh", 3, by_ids, "sum of each row's k products of IDS [m, k], times WEIGHTS [m, k]") \
  X(embed, "embed", 2, by_ids, "sums of rows of the tables W, those that each row of IDS picks")   \
  X(embed_mean, "embed_mean", 2, by_ids, "the same, and means of them")                            \
  X(top_k, "top_k", 1, by_ids, "the k experts that each row of scores is highest for")             \
  X(biased_top_k, "biased_top_k", 2, by_ids, "the same by their sigmoids, plus the row B [1, n]")  \
  X(softmax_gate, "softmax_gate", 2, by_ids, "weights of the experts IDS: a softmax of scores")    \
  X(sigmoid_gate, "sigmoid_gate", 2, by_ids, "weights of the experts IDS: sigmoids of scores")     \
  X(slice_ids, "slice_ids", 1, by_ids, "the slices of each of IDS: numbers in a stack of slices")  \
  X(slice_weights, "slice_weights", 1, by_ids, "each weight once for each slice")                  \
  X(gather, "gather", 1, by_rows, "all rows of X, as a product that gathers them has them")        \
  X(count, "count", 1, by_ids, "how many of the choices IDS each expert has")

#define STRETTO_ENUM(name, ...) name,
enum class StageKind : uint8_t { STRETTO_STAGES(STRETTO_ENUM) };
#undef STRETTO_ENUM

std::string_view to_string(StageKind kind);

// Whether it makes each row of the rows of the same number.
constexpr bool goes_by_rows(StageKind kind) {
  constexpr bool by_rows = true, by_ids = false;
#define STRETTO_GOES(name, text, operands, goes, meaning) goes,
  constexpr bool kByRows[] = {STRETTO_STAGES(STRETTO_GOES)};
#undef STRETTO_GOES
  return kByRows[static_cast<size_t>(kind)];
}

// Whether it makes products: of its first operand, by its second.
inline bool multiplies(StageKind kind) {
  return kind == StageKind::gemm || kind == StageKind::grouped;
}

// Whether rows that it makes are those of choices, in the order of their experts.
inline bool makes_choices_rows(StageKind kind) {
  return kind == StageKind::grouped || kind == StageKind::permute;
}
// Which of its operands says the choices.
inline size_t operand_of_ids(StageKind kind) { return kind == StageKind::grouped ? 2 : 1; }

// Whether it adds up rows of tables: of its second operand, by indices that are its first.
inline bool looks_up(StageKind kind) {
  return kind == StageKind::embed || kind == StageKind::embed_mean;
}

// Whether it chooses experts by scores, which are its first operand.
inline bool chooses_experts(StageKind kind) {
  return kind == StageKind::top_k || kind == StageKind::biased_top_k;
}

// Whether it weighs chosen experts by scores, which are its first operand.
inline bool weighs_experts(StageKind kind) {
  return kind == StageKind::softmax_gate || kind == StageKind::sigmoid_gate;
}

// Whether it makes choices of experts, or their weights, those of the experts' slices.
inline bool slices_choices(StageKind kind) {
  return kind == StageKind::slice_ids || kind == StageKind::slice_weights;
}

inline constexpr size_t kMostStages = 4096;
inline constexpr size_t kMostSizes = 32;

// Whether it hands over, to the caller alone, what a product has gathered or a partition counted.
inline bool hands_over(StageKind kind) {
  return kind == StageKind::gather || kind == StageKind::count;
}

struct GraphText;  // a graph before its sizes are known (graph_text.h)

// What the values of a graph's weight are in tests, whose data reference.h describes.
struct WeightValues {
  float scale = 1;          // of random values
  float integer_scale = 1;  // of integers, a power of two
  int nonzeros = 0;         // integers of a row that are not 0; 0: it is no weight
};

struct Tensor {
  std::string name;
  int64_t rows = 0, cols = 0;  // global
  Held held = Held::whole;     // as the caller gives it, or as its stage makes it
  int stage = -1;              // that makes it; -1: the caller gives it
  DType dtype = DType::bf16;   // the operator's, but of some that the caller gives
  int64_t matrices = 1;        // of a stack, each rows x cols
  int64_t unit = 0;            // columns that a rank has together: of one table; 0: as they come
  WeightValues values = {};
  int team = 0;             // ranks of a team that hold it among them; 0: all ranks do
  bool deals_rows = false;  // to the teams, a block each; else each has all of it
};

struct Stage {
  StageKind kind = StageKind::gemm;
  std::vector<int> in;      // tensors
  std::vector<Held> needs;  // how it needs each of them
  int out = 0;              // tensor
  double eps = 0;           // norm
  // A stage that chooses experts says how many, and from how many of how many groups.
  int64_t k = 0, best = 1, groups = 1;
  // One that weighs them says what weights are multiplied with, and whether they are made to add up
  // to 1 before.
  double scale = 1;
  bool normalises = true;
  // One that slices choices says into how many each expert is cut; it, permute and count say how
  // many experts there are.
  int64_t slices = 1, experts = 0;
  int team = 0;  // ranks that compute it among them; 0: all ranks do
};

struct OperatorOutput {
  int tensor = 0;
  Held held = Held::whole;
};

// What is computed between two edges: what one schedule is for. A product with what follows it tile
// by tile, pooled look-ups, or stages over rows that their ranks have.
struct OperatorSegment {
  std::string name;                // of its last tensor
  std::optional<Segment> product;  // none: stages over rows
  int input = 0;                   // product: tensor A
  // The tensors B of a product; two whose results one stage joins. None: rows are only moved.
  std::vector<int> weights;
  std::vector<int> stages;         // in their order, the product's first
  int result = 0;                  // tensor, behind the edge at its end
  Held result_held = Held::whole;  // as it is behind that edge
  // The tensors that say which matrices each row of a routed product takes, and what weighs their
  // results, where a stage does. The ids of look-ups say which rows of tables are added up.
  int ids = -1, router_weights = -1;
  Edge edge = Edge::none;  // of a segment without stages: `input`, for the caller
  // The segment in front brings the product's `input`, as the product needs it.
  bool is_fed = false;
  bool is_edge() const { return stages.empty() && !product; }
  // Of a product with an edge on both sides: the one in front of it, NAME.in.
  bool feeds() const { return stages.empty() && product; }
  bool is_gather() const { return edge == Edge::gather; }
  bool operator==(const OperatorSegment&) const = default;
};

struct Operator {
  Operator() = default;
  Operator(const Segment& product);  // NOLINT: an operator of one product, under the product's name

  std::shared_ptr<const GraphText> text;
  std::vector<std::pair<std::string, int64_t>> sizes;
  int ranks = 1;
  DType dtype = DType::bf16;

  std::vector<Tensor> tensors;  // inputs first, as they are written; then what stages make
  std::vector<Stage> stages;
  std::vector<OperatorOutput> outputs;
  std::vector<EdgeKernel> kernels;        // that schedules may take
  std::vector<OperatorSegment> segments;  // in an order in which one after the other can run

  const std::string& name() const;
  // `team`: ranks that they are dealt to, of each team; 0: all.
  ColShards shares_of(int64_t cols, int64_t unit = 0, int team = 0) const {
    const int owners = team > 0 ? team : ranks;
    if (unit > 0) return {cols, owners, unit, unit};
    return {cols, owners, 16 / num_bytes(dtype)};
  }
  // Rows of the tensor that each team has.
  int64_t team_rows(const Tensor& of) const {
    return of.deals_rows ? of.rows / (ranks / of.team) : of.rows;
  }
  // Ranks that hold the tensor among them, in every team.
  int team_ranks(const Tensor& of) const { return of.team > 0 ? of.team : ranks; }
  // The first rank of `rank`'s team, which holds the tensor, and has all of it where it is whole.
  int first_of_team(const Tensor& of, int rank) const { return rank - rank % team_ranks(of); }
  bool has_teams() const;  // smaller than all ranks
  // The first size counts them: a run may have fewer.
  int64_t rows() const { return sizes.front().second; }
  // Where the operator is one product of a kind with a name, and nothing else; null: it is more.
  const Segment* only_product() const {
    const bool is_one = segments.size() == 1 && segments[0].product &&
                        segments[0].product->is_dense() && segments[0].product->teams == 1 &&
                        segments[0].product->kind.has_name();
    return is_one ? &*segments[0].product : nullptr;
  }
  // Whether the ranks' products are terms of a sum, in the last of them.
  bool ends_with_terms() const;
  std::optional<int> find_tensor(std::string_view tensor) const;
  std::optional<int64_t> size(std::string_view size) const;
  const Tensor& tensor(int id) const { return tensors[static_cast<size_t>(id)]; }
  const Stage& stage(int id) const { return stages[static_cast<size_t>(id)]; }
  // How many experts there are for a stage that makes rows of choices.
  int64_t experts_of(const Stage& stage) const {
    return stage.kind == StageKind::grouped ? tensor(stage.in[1]).matrices : stage.experts;
  }
  // As the caller gets it; nothing where it is no output.
  std::optional<Held> output_held(int tensor) const;
  bool operator==(const Operator& other) const;
};

// Reads a graph's lines. Throws UsageError with all that is wrong, each "FILE:LINE:COLUMN: ...".
std::shared_ptr<const GraphText> parse_graph(std::string_view text,
                                             std::string_view file_name = "graph");
// Exact: parse_graph(print(g)) prints the same.
std::string print(const GraphText& text);

using Sizes = std::vector<std::pair<std::string, int64_t>>;
// Binds sizes, in any order. Throws UsageError with all reasons why the graph cannot be served.
Operator make_graph(std::shared_ptr<const GraphText> text, const Sizes& sizes, int ranks,
                    DType dtype);
// A shipped operator by its name. Throws UsageError.
Operator make_operator(std::string_view name, const Sizes& sizes, int ranks,
                       DType dtype = DType::bf16);

// The shipped operators, by name.
std::span<const std::shared_ptr<const GraphText>> known_graphs();
// Null: not known. NAME-i64 is the one of that name with ids of 64 bits, where it takes ids.
std::shared_ptr<const GraphText> find_graph(std::string_view name);
// The graph's name, and the names of its sizes.
const std::string& name_of(const GraphText& text);
const std::vector<std::string>& sizes_of(const GraphText& text);

// "mlp m=1003 h=512 f=1376 ranks=3 dtype=bf16"; parse is the inverse of shipped operators', and of
// others' where `text` is theirs (throws UsageError).
std::string to_string(const Operator& op);
Operator parse_operator(std::string_view words, const SegmentDefaults& absent = {},
                        std::shared_ptr<const GraphText> text = {});
void validate(const Operator& op);
// The operator with so many rows, which are its first size.
Operator with_rows(const Operator& op, int64_t rows);
double flops_per_rank(const Operator& op);
// Bytes that leave one rank at least, per direction.
double link_bytes(const Operator& op);

}  // namespace stretto

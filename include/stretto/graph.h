// Graph: an operator as stages over tensors that ranks hold in parts. Communication is not written:
// where a stage needs a tensor held otherwise than it was made, there is an edge.
//
//   graph mlp m h f                 a name and the sizes; the first counts rows that serving changes
//   input x [m, h] rows             what the caller gives, and how ranks hold it
//   input wg [f, h] rows
//   input wu [f, h] rows
//   input wd [h, f] cols
//   g = gemm x wg                   stages, in an order in which each tensor is made before its use
//   u = gemm x wu
//   a = swiglu g u
//   y = gemm a wd
//   output y rows                   what the caller gets, and how ranks hold it
//
// docs/graph-format.md is the grammar. Weights are [N, K] as in a PyTorch linear. A tensor's sizes
// are global; `rows` deals blocks of ceil(rows / ranks) rows, the last of which may be short or
// empty, and `cols` equal blocks of columns.
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

namespace stretto {

// X(enumerator, text, meaning)
#define STRETTO_HELDS(X)                              \
  X(whole, "whole", "every rank has all of it")       \
  X(rows, "rows", "every rank has a block of rows")   \
  X(cols, "cols", "every rank has a block of columns") \
  X(partial, "partial", "every rank has a term of the sum")

// X(enumerator, text, operands, meaning)
#define STRETTO_STAGES(X)                                                              \
  X(gemm, "gemm", 2, "A [m, k] times the transpose of B [n, k]")                       \
  X(swiglu, "swiglu", 2, "silu(G) * U, element by element")                            \
  X(gelu, "gelu", 1, "GELU of every element, in its tanh form")                        \
  X(silu, "silu", 1, "x * sigmoid(x) of every element")                                \
  X(bias, "bias", 2, "X with the row B [1, n] added to every row")                     \
  X(add, "add", 2, "the sum of two tensors, a residual for example")                   \
  X(norm, "norm", 2, "RMSNorm of every row, times the row W [1, n]; eps=1e-06 unless given")

// How what one holds becomes what another needs.
#define STRETTO_EDGES(X)                                              \
  X(none, "none", "it is there")                                      \
  X(gather, "gather", "rows -> whole")                                \
  X(reduce_scatter, "reduce-scatter", "partial -> rows")              \
  X(all_reduce, "all-reduce", "partial -> whole")                     \
  X(all_to_all, "all-to-all", "rows -> cols (tokens -> heads), or back")

#define STRETTO_ENUM(name, ...) name,
enum class Held : uint8_t { STRETTO_HELDS(STRETTO_ENUM) };
enum class StageKind : uint8_t { STRETTO_STAGES(STRETTO_ENUM) };
enum class Edge : uint8_t { STRETTO_EDGES(STRETTO_ENUM) };
#undef STRETTO_ENUM

std::string_view to_string(Held held);
std::string_view to_string(StageKind kind);
std::string_view to_string(Edge edge);

// The edge between two ways to hold; nothing where there is none. What every rank has whole is
// there in every other way too.
std::optional<Edge> edge_between(Held made, Held needed);

inline constexpr size_t kMostStages = 4096;
inline constexpr size_t kMostSizes = 32;

struct GraphText;  // a graph before its sizes are known (graph_text.h)

struct Tensor {
  std::string name;
  int64_t rows = 0, cols = 0;  // global
  Held held = Held::whole;     // as the caller gives it, or as its stage makes it
  int stage = -1;              // that makes it; -1: the caller gives it
};

struct Stage {
  StageKind kind = StageKind::gemm;
  std::vector<int> in;     // tensors
  std::vector<Held> needs;  // how it needs each of them
  int out = 0;             // tensor
  double eps = 0;          // norm
};

struct GraphOutput {
  int tensor = 0;
  Held held = Held::whole;
};

struct Graph {
  std::shared_ptr<const GraphText> text;
  std::vector<std::pair<std::string, int64_t>> sizes;
  int ranks = 1;
  DType dtype = DType::bf16;

  std::vector<Tensor> tensors;  // inputs first, as they are written; then what stages make
  std::vector<Stage> stages;
  std::vector<GraphOutput> outputs;

  const std::string& name() const;
  // Of the first size: rows that a run may have fewer of.
  int64_t rows() const { return sizes.front().second; }
  std::optional<int> find_tensor(std::string_view tensor) const;
  std::optional<int64_t> size(std::string_view size) const;
  bool operator==(const Graph& other) const;
};

// Reads a graph's lines. Throws UsageError with all that is wrong, each "FILE:LINE:COLUMN: ...".
std::shared_ptr<const GraphText> parse_graph(std::string_view text,
                                             std::string_view file_name = "graph");
// Exact: parse_graph(print(g)) prints the same.
std::string print(const GraphText& text);

using Sizes = std::vector<std::pair<std::string, int64_t>>;
// Binds sizes, in any order. Throws UsageError with all reasons why the graph cannot be served.
Graph make_graph(std::shared_ptr<const GraphText> text, const Sizes& sizes, int ranks, DType dtype);
// A shipped operator by its name. Throws UsageError.
Graph make_operator(std::string_view name, const Sizes& sizes, int ranks,
                    DType dtype = DType::bf16);

// The shipped operators, by name.
std::span<const std::shared_ptr<const GraphText>> known_graphs();
std::shared_ptr<const GraphText> find_graph(std::string_view name);  // null: not known
// The graph's name, and the names of its sizes.
const std::string& name_of(const GraphText& text);
const std::vector<std::string>& sizes_of(const GraphText& text);

// "mlp m=1003 h=512 f=1376 ranks=3 dtype=bf16"
std::string to_string(const Graph& graph);

}  // namespace stretto

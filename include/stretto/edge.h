// Edges: how what ranks hold becomes what a stage or the caller needs, and the products that have
// one. The rows of the first list say all that distinguishes one edge from another but its tasks:
// graphs, names, messages, schedules and tuning ask them. Which schedules serve it, and its tasks,
// are of its row of lower/edge_row.h, which a file of src/lower defines: without one nothing
// links.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "stretto/held.h"

namespace stretto {

// X(enumerator, text, meaning for who reads it here, what else EdgeKind has of it...)
#define STRETTO_EDGES(X)                                                                          \
  X(none, "none", "it is there")                                                                  \
  X(gather, "gather", "rows -> whole", .between = {{{Held::rows, Held::whole}}}, .feeds = true,   \
    .serves_callers = true, .times_sent = 1)                                                      \
  X(reduce_scatter, "reduce-scatter", "partial -> rows",                                          \
    .between = {{{Held::partial, Held::rows}}}, .drains = true, .adds = true, .times_sent = 1)    \
  X(all_reduce, "all-reduce", "partial -> whole", .between = {{{Held::partial, Held::whole}}},    \
    .drains = true, .adds = true, .reaches_all = true, .times_sent = 2)                           \
  X(all_to_all, "all-to-all", "rows -> cols (tokens -> heads), or back",                          \
    .between = {{{Held::rows, Held::cols}, {Held::cols, Held::rows}}}, .feeds = true,             \
    .drains = true, .exchanges = true, .times_sent = 1)                                           \
  X(dispatch, "dispatch", "rows -> routed: to who has an expert of them",                         \
    .between = {{{Held::rows, Held::routed}}}, .feeds = true, .goes_by_ids = true,                \
    .times_sent = 1)                                                                              \
  X(combine, "combine", "routed -> rows: sums of what experts made of them",                      \
    .between = {{{Held::routed, Held::rows}}}, .drains = true, .adds = true, .goes_by_ids = true, \
    .times_sent = 1)

#define STRETTO_ENUM(name, ...) name,
enum class Edge : uint8_t { STRETTO_EDGES(STRETTO_ENUM) };
#undef STRETTO_ENUM

struct HeldAndNeeded {
  Held made = Held::whole, needed = Held::whole;
};

struct EdgeKind {
  Edge edge;
  std::string_view text;
  // What is held so and needed so has this edge: one way, or back too.
  std::array<HeldAndNeeded, 2> between = {};
  // Whose it is: the product's that takes the tensor as its first operand, or else the product's
  // that made it.
  bool feeds = false, drains = false;
  // Or nobody's: it may stand behind all products, for the caller.
  bool serves_callers = false;
  bool adds = false;         // ranks have terms of what is needed
  bool reaches_all = false;  // all ranks get all of it
  bool exchanges = false;    // every rank has a part of what each other one needs
  bool goes_by_ids = false;  // a run says which rows go where
  // How often the tensor's bytes leave ranks, but for what is the rank's own: a sum that goes to
  // all does so as terms, and then as sums.
  int times_sent = 0;
};

#define STRETTO_ROW(name, label, means, ...) \
  EdgeKind{.edge = Edge::name, .text = label __VA_OPT__(, ) __VA_ARGS__},
// In the order of the list.
inline constexpr EdgeKind kEdges[] = {STRETTO_EDGES(STRETTO_ROW)};
#undef STRETTO_ROW

constexpr const EdgeKind& kind_of(Edge edge) { return kEdges[static_cast<size_t>(edge)]; }

std::string_view to_string(Edge edge);

// The edge between two ways to hold; nothing where there is none. What every rank has whole is
// there in every other way too.
std::optional<Edge> edge_between(Held made, Held needed);

// What the weight of a product and the edges at it say of who computes what.
struct ProductKind {
  // rows: columns of the result; cols: a term of it; whole: own rows, or all of them
  Held weight = Held::cols;
  Edge in = Edge::none, out = Edge::none;

  // What texts, tuning files and operations of any row count say. Others are parts of graphs only.
  bool has_name() const;
  auto operator<=>(const ProductKind&) const = default;
};

// The dense products that schedules serve: X(constant, name, how the weight is held, edge before,
// edge behind). segment.h says what each of them is.
#define STRETTO_PRODUCTS(X)                         \
  X(kAgGemm, "ag-gemm", rows, gather, none)         \
  X(kGemmRs, "gemm-rs", cols, none, reduce_scatter) \
  X(kGemmAr, "gemm-ar", cols, none, all_reduce)     \
  X(kColGemm, "col-gemm", rows, none, none)         \
  X(kGemmA2a, "gemm-a2a", whole, none, all_to_all)  \
  X(kA2aGemm, "a2a-gemm", whole, all_to_all, none)

#define STRETTO_CONSTANT(constant, name, weight, in, out) \
  inline constexpr ProductKind constant{Held::weight, Edge::in, Edge::out};
STRETTO_PRODUCTS(STRETTO_CONSTANT)
#undef STRETTO_CONSTANT

// "ag-gemm"; nothing where no schedule serves such a product.
std::string_view to_string(ProductKind kind);
std::optional<ProductKind> product_kind_from(std::string_view text);
// The names, as a message lists them.
std::span<const std::string_view> product_kind_names();

}  // namespace stretto

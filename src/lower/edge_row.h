// EdgeRow: all that distinguishes one edge from another but its facts: which schedules serve it,
// and its tasks. legal() and the steps of lowering ask the row. An edge is a line of STRETTO_EDGES
// (stretto/edge.h) and a row in a file of its tasks, or of its rules: without one nothing links.
#pragma once

#include "lower/pattern.h"
#include "schedule/legal_rules.h"

namespace stretto {

struct Lowering;
struct PartLowering;

struct EdgeRow {
  // Which schedules serve dense products with it, and what is said of others. Several edges may
  // have one rule, check_moves() for example. Null: only rows that choose matrices have such an
  // edge.
  void (*check)(Case& c) = nullptr;
  // How their tasks hang together, by a schedule that check() has let pass. Null: the same.
  const Pattern& (*pattern)(const Segment& op, const Schedule& schedule) = nullptr;
  // Of an edge at no product, for the caller. Null: it serves none.
  AfterTiles (*emit_output)(Lowering& state, const PartLowering& part, const OperatorSegment& edge,
                            bool by_movers) = nullptr;
};

const EdgeRow& row_of(Edge edge);
// Of the edge at a product: that of none on one rank, where nothing moves.
const EdgeRow& row_at(const Segment& product);

// One row each, in a file of its tasks or of its rules.
namespace edges {
#define STRETTO_ROW(name, ...) extern const EdgeRow name;
STRETTO_EDGES(STRETTO_ROW)
#undef STRETTO_ROW
}  // namespace edges

}  // namespace stretto

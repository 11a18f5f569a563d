#include "lower/edge_row.h"

#include "stretto/error.h"

namespace stretto {
namespace {

#define STRETTO_ROW(name, ...) &edges::name,
const EdgeRow* const kRows[] = {STRETTO_EDGES(STRETTO_ROW)};  // in the order of the list
#undef STRETTO_ROW

}  // namespace

const EdgeRow& row_of(Edge edge) { return *kRows[static_cast<size_t>(edge)]; }

const EdgeRow& row_at(const Segment& product) {
  if (product.ranks <= 1) return edges::none;
  return row_of(product.kind.in != Edge::none ? product.kind.in : product.kind.out);
}

const Pattern& pattern_of(const Segment& op, const Schedule& schedule) {
  const EdgeRow& row = row_at(op);
  STRETTO_ASSERT(row.pattern != nullptr, "rows that choose matrices are lowered otherwise");
  return row.pattern(op, schedule);
}

}  // namespace stretto

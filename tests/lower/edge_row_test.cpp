// The rows of edges agree with what their facts say of them.
#include "lower/edge_row.h"

#include <gtest/gtest.h>

namespace stretto {
namespace {

TEST(EdgeRow, ServesCallersWhereFactsSayThatItDoes) {
  for (const EdgeKind& edge : kEdges) {
    SCOPED_TRACE(edge.text);
    EXPECT_EQ(row_of(edge.edge).emit_output != nullptr, edge.serves_callers);
  }
}

TEST(EdgeRow, HasAPatternForEveryProductWithAName) {
  const auto expect_pattern = [](Edge in, Edge out) {
    const Edge edge = in != Edge::none ? in : out;
    EXPECT_NE(row_of(edge).pattern, nullptr) << kind_of(edge).text;
  };
#define STRETTO_EXPECT(constant, name, weight, in, out) expect_pattern(Edge::in, Edge::out);
  STRETTO_PRODUCTS(STRETTO_EXPECT)
#undef STRETTO_EXPECT
}

TEST(EdgeRow, HasRulesWhereItHasAPattern) {
  for (const EdgeKind& edge : kEdges) {
    SCOPED_TRACE(edge.text);
    const EdgeRow& row = row_of(edge.edge);
    EXPECT_EQ(row.check != nullptr, row.pattern != nullptr);
  }
}

}  // namespace
}  // namespace stretto

// The rows of edges in this room agree with what their facts say of them.
#include <gtest/gtest.h>

#include "lower/pattern.h"

namespace stretto {
namespace {

TEST(EdgeTasks, ServeCallersWhereFactsSayThatTheyDo) {
  for (const EdgeKind& edge : kEdges) {
    SCOPED_TRACE(edge.text);
    EXPECT_EQ(tasks_of(edge.edge).emit_output != nullptr, edge.serves_callers);
  }
}

TEST(EdgeTasks, HaveAPatternForEveryProductWithAName) {
  for (const Edge edge : {Edge::gather, Edge::reduce_scatter, Edge::all_reduce, Edge::all_to_all}) {
    EXPECT_NE(tasks_of(edge).pattern, nullptr) << kind_of(edge).text;
  }
}

}  // namespace
}  // namespace stretto

// What the rows of edges say, and who reads them.
#include "stretto/edge.h"

#include <gtest/gtest.h>

#include "stretto/segment.h"

namespace stretto {
namespace {

TEST(EdgeRows, AreFoundByWhatIsHeldAndNeeded) {
  for (const EdgeKind& kind : kEdges) {
    EXPECT_EQ(&kind_of(kind.edge), &kind) << kind.text;
    for (const HeldAndNeeded& one : kind.between) {
      if (one.made == one.needed) continue;  // there is no second way
      EXPECT_EQ(edge_between(one.made, one.needed), kind.edge) << kind.text;
    }
  }
  EXPECT_EQ(edge_between(Held::whole, Held::cols), Edge::none);
  EXPECT_EQ(edge_between(Held::routed, Held::routed), Edge::none);
  EXPECT_EQ(edge_between(Held::whole, Held::partial), std::nullopt);
  EXPECT_EQ(edge_between(Held::experts, Held::whole), std::nullopt);
}

// Nobody could say whose an edge is, or that it moves something.
TEST(EdgeRows, AreSomebodysAndMoveSomething) {
  for (const EdgeKind& kind : kEdges) {
    const bool is_one = kind.edge != Edge::none;
    EXPECT_EQ(kind.feeds || kind.drains, is_one) << kind.text;
    EXPECT_EQ(kind.times_sent > 0, is_one) << kind.text;
  }
}

TEST(ProductNames, ReadAsTheyPrint) {
  for (const std::string_view name : product_kind_names()) {
    const auto kind = product_kind_from(name);
    ASSERT_TRUE(kind) << name;
    EXPECT_TRUE(kind->has_name());
    EXPECT_EQ(to_string(*kind), name);
    EXPECT_FALSE(kind->in != Edge::none && kind->out != Edge::none) << name;
  }
  EXPECT_EQ(to_string(ProductKind{Held::cols, Edge::gather, Edge::none}), "product");
}

TEST(LinkBytes, AreThoseThatItsEdgeSends) {
  const auto bytes = [](ProductKind kind) {
    return link_bytes({kind, 96, 64, 32, 4, DType::bf16});
  };
  EXPECT_EQ(bytes(kAgGemm), 96 * 32 * 2 * 3 / 4);
  EXPECT_EQ(bytes(kGemmRs), 96 * 64 * 2 * 3 / 4);
  EXPECT_EQ(bytes(kGemmAr), 2 * bytes(kGemmRs));
  EXPECT_EQ(bytes(kColGemm), 0);
  EXPECT_EQ(bytes(kGemmA2a), bytes(kGemmRs) / 4);
  EXPECT_EQ(bytes(kA2aGemm), bytes(kAgGemm) / 4);
}

}  // namespace
}  // namespace stretto

// Operators as graphs: what their text says, what follows of it, what is refused.
#include "stretto/operator.h"

#include <gmock/gmock.h>

#include <cmath>
#include <functional>

#include "refusal.h"
#include "stretto/error.h"
#include "stretto/reference.h"

namespace stretto {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string refused_graph(std::string_view text) {
  return refusal([&] { parse_graph(text, "my.graph"); });
}

TEST(KnownGraphs, PrintAndParseExactly) {
  ASSERT_GE(known_graphs().size(), 10u);
  for (const auto& graph : known_graphs()) {
    const std::string text = print(*graph);
    EXPECT_EQ(print(*parse_graph(text)), text);
    EXPECT_EQ(find_graph(name_of(*graph)), graph);
  }
}

TEST(Operators, OfOneProductAreItsSegment) {
  for (const ProductKind kind : {kAgGemm, kGemmRs, kGemmAr, kColGemm}) {
    const Segment segment{kind, 40, 48, 64, 4, DType::fp16};
    const Operator op(segment);
    ASSERT_NE(op.only_product(), nullptr) << to_string(segment);
    EXPECT_EQ(*op.only_product(), segment);
    EXPECT_EQ(to_string(op), to_string(segment));
    EXPECT_TRUE(parse_operator(to_string(op)) == op);
    EXPECT_DOUBLE_EQ(link_bytes(op), link_bytes(segment));
    EXPECT_DOUBLE_EQ(flops_per_rank(op), flops_per_rank(segment));
  }
}

TEST(Operators, CutTheirStagesAtEdges) {
  const Operator mlp = make_operator("mlp", {{"f", 96}, {"m", 10}, {"h", 64}}, 2);
  ASSERT_EQ(mlp.segments.size(), 2u);
  EXPECT_EQ(mlp.segments[0].name, "up");
  EXPECT_EQ(mlp.segments[0].product->kind, kAgGemm);
  EXPECT_EQ(mlp.segments[0].product->weights, 2);
  EXPECT_EQ(mlp.segments[0].stages.size(), 3u);
  EXPECT_EQ(mlp.segments[1].name, "down");
  EXPECT_EQ(mlp.segments[1].product->kind, kGemmRs);
  EXPECT_EQ(mlp.only_product(), nullptr);
  EXPECT_DOUBLE_EQ(flops_per_rank(mlp), 2.0 * 10 * 64 * 96 * 3 / 2);

  const Operator norm = make_operator("gemm-rs-norm-ag", {{"m", 10}, {"n", 64}, {"k", 64}}, 2);
  ASSERT_EQ(norm.segments.size(), 3u);
  EXPECT_EQ(norm.segments[0].product->kind, kGemmRs);
  EXPECT_FALSE(norm.segments[1].product);
  EXPECT_EQ(norm.segments[1].stages.size(), 2u);
  EXPECT_TRUE(norm.segments[2].is_gather());
  EXPECT_DOUBLE_EQ(link_bytes(norm), 2 * 0.5 * 10 * 64 * 2);

  const Operator layer = make_operator(
      "layer", {{"m", 10}, {"h", 64}, {"f", 96}, {"heads", 4}, {"kv-heads", 2}, {"head-dim", 16}},
      2);
  ASSERT_EQ(layer.segments.size(), 6u);
  EXPECT_EQ(layer.tensor(*layer.find_tensor("qkv")).cols, (4 + 2 * 2) * 16);
}

TEST(Graphs, AreRefusedWithAllReasonsAndTheirPlaces) {
  EXPECT_THAT(refused_graph("graph bad m k\n"
                            "input a [m, kk] rows\n"
                            "input b [m, k] diagonal  # no such way\n"
                            "z = gemmm a b\n"
                            "y = gemm a y\n"
                            "output q rows\n"),
              AllOf(HasSubstr("my.graph:2:13: unknown size 'kk'"),
                    HasSubstr("my.graph:3:16: unknown way to hold a tensor 'diagonal'"),
                    HasSubstr("my.graph:4:5: unknown kind of stage 'gemmm' (did you mean 'gemm'?)"),
                    HasSubstr("my.graph:5:12: tensor y is made by this very stage"),
                    HasSubstr("my.graph:6:8: unknown tensor 'q'")));
  EXPECT_EQ(
      refused_graph("graph g m\nb = silu a\nc = gelu d e\n"),
      "my.graph:2:10: unknown tensor 'a'; there is none; a tensor is made in a line above its "
      "use; my.graph:3:10: gelu takes 1 tensor, found 2; my.graph:3:10: unknown tensor 'd'; known: "
      "b; a tensor is made in a line above its use; my.graph:3:12: unknown tensor 'e'; known: b; a "
      "tensor is made in a line above its use; my.graph:4:1: a graph needs at least one output");
  EXPECT_EQ(refused_graph("\xef\xbb\xbfgraph g m\n"),
            "my.graph:1:1: the text begins with a byte order mark: save it as UTF-8 without one");
  EXPECT_THAT(refused_graph(""), HasSubstr("expected a graph, found nothing"));
  EXPECT_THAT(refused_graph("input a [m, m] rows\n"), HasSubstr("to begin with: graph NAME SIZE"));
  EXPECT_THAT(refused_graph("graph g m\ninput a [m, m] rows\noutput a rows\n"),
              HasSubstr("at least one stage"));
  EXPECT_THAT(refused_graph("graph g m\ninput a [m, m] rows\nb = silu a\n"),
              HasSubstr("at least one output"));
  EXPECT_THAT(refused_graph("graph g m\ninput a [m, m] rows\nb = silu a a\noutput b rows\n"),
              HasSubstr("my.graph:3:10: silu takes 1 tensor, found 2"));
  EXPECT_THAT(
      refused_graph("graph g m\ninput a [m, m] rows\nb = silu a\nb = gelu a\noutput b rows\n"),
      HasSubstr("my.graph:4:1: tensor b is made twice"));
  EXPECT_THAT(refused_graph("graph g m\ninput a [m, m] rows\nb = silu a eps=1\noutput b rows\n"),
              HasSubstr("silu has no attribute 'eps'"));
  EXPECT_THAT(refused_graph("graph g m\ninput a [(m*2, m] rows\nb = silu a\noutput b rows\n"),
              HasSubstr("my.graph:2:14: expected ')'"));
  EXPECT_THAT(refused_graph("graph g m\ninput a [m, m] rows\ninput c [m, m] rows\nb = silu a\n"
                            "output b rows\n"),
              HasSubstr("my.graph:3:7: no stage uses input c"));
}

TEST(Graphs, OfTooManyStagesEndSoon) {
  std::string text = "graph g m\ninput a [m, m] rows\nt0 = silu a\n";
  for (int i = 1; i < 10000; ++i) {
    text += "t" + std::to_string(i) + " = silu t" + std::to_string(i - 1) + "\n";
  }
  EXPECT_EQ(refused_graph(text + "output t9999 rows\n"),
            "my.graph:4099:1: a graph has at most 4096 stages");
}

std::string refused_sizes(std::string_view graph, const Sizes& sizes, int ranks) {
  return refusal([&] { make_graph(parse_graph(graph, "my.graph"), sizes, ranks, DType::bf16); });
}

TEST(Graphs, MustFitTheirSizesAndEdges) {
  constexpr std::string_view kShapes =
      "graph g m k\ninput a [m, k] rows\ninput b [k, m] rows\nc = gemm a b\noutput c cols\n";
  EXPECT_THAT(refused_sizes(kShapes, {{"m", 4}, {"k", 6}}, 2),
              HasSubstr("my.graph:4:10: A and B of a gemm have as many columns"));
  EXPECT_THAT(refused_sizes(kShapes, {{"m", 4}}, 2), HasSubstr("k= is missing"));
  EXPECT_THAT(refused_sizes(kShapes, {{"m", 4}, {"k", 4}, {"n", 1}}, 2),
              HasSubstr("unknown size 'n'"));
  EXPECT_THAT(
      refused_sizes("graph g m k\ninput a [m, k] cols\ninput b [k, k] cols\n"
                    "c = gemm a b\noutput c cols\n",
                    {{"m", 4}, {"k", 4}}, 2),
      HasSubstr("output c is to be held as cols, and it is made partial: there is no edge"));
  EXPECT_THAT(refused_sizes("graph g m k\ninput a [m, k] rows\ninput b [k, k] rows\n"
                            "c = gemm a b\noutput c cols\n",
                            {{"m", 4}, {"k", 7}}, 2),
              HasSubstr("7 rows of b are dealt to 2 ranks in blocks of 8, which leaves none for "
                        "the last: take 6 or 8"));
  // Nothing is measured by an extent that there is not.
  EXPECT_EQ(refused_sizes("graph g m\ninput a [m, m*m*m*m] rows\ninput b [m, m] rows\n"
                          "c = gemm a b\noutput c cols\n",
                          {{"m", 1 << 20}}, 2),
            "g: my.graph:2:7: m*m*m*m is too large; an extent must be between 1 and 1073741824");
  // Of f, which gives six tensors their columns or rows, once.
  EXPECT_EQ(refused_sizes("graph g m h f\ninput x [m, h] rows\ninput wg [f, h] rows\n"
                          "input wu [f, h] rows\ninput wd [h, f] cols\n"
                          "g = gemm x wg\nu = gemm x wu\nup = swiglu g u\ndown = gemm up wd\n"
                          "output down rows\n",
                          {{"m", 8}, {"h", 8}, {"f", 66}}, 4),
            "g: my.graph:5:7: 66 columns of wd are dealt to 4 ranks in blocks of 24, which leaves "
            "none for the last: take 64 or 68");
}

// By hand: y = silu(x wg^T) * (x wu^T) wd^T on whole matrices.
TEST(ReferenceOfOperators, IsTheCompositionOfItsStages) {
  constexpr int64_t kM = 5, kH = 16, kF = 24;
  const Operator op = make_operator("mlp", {{"m", kM}, {"h", kH}, {"f", kF}}, 2);
  const InputData data{Fill::random, 7};
  const auto tensor = [&](const char* name) {
    const int id = *op.find_tensor(name);
    const Tensor& of = op.tensor(id);
    std::vector<std::vector<float>> rows(static_cast<size_t>(of.rows));
    for (int64_t row = 0; row < of.rows; ++row) {
      rows[static_cast<size_t>(row)].resize(static_cast<size_t>(of.cols));
      fill_tensor(op, data, id, row, 0, rows[static_cast<size_t>(row)]);
    }
    return rows;
  };
  const auto x = tensor("x"), wg = tensor("wg"), wu = tensor("wu"), wd = tensor("wd");
  const auto dot = [](const auto& a, const auto& b) {
    double sum = 0;
    for (size_t i = 0; i < b.size(); ++i) sum += double(a[i]) * double(b[i]);
    return sum;
  };
  const std::vector<ExpectedRows> expected = expected_outputs(op, data, {}, 1, 4);
  ASSERT_EQ(expected.size(), 1u);
  for (int64_t row = 1; row < 4; ++row) {
    std::vector<double> up(kF);
    for (size_t j = 0; j < up.size(); ++j) {
      const double g = dot(x[static_cast<size_t>(row)], wg[j]);
      up[j] = g / (1 + std::exp(-g)) * dot(x[static_cast<size_t>(row)], wu[j]);
    }
    for (int64_t col = 0; col < kH; ++col) {
      const double right = dot(up, wd[static_cast<size_t>(col)]);
      EXPECT_NEAR(expected[0].value(row, col), right, 1e-9);
      EXPECT_GT(expected[0].bound(row, col), 0);
      EXPECT_LT(expected[0].bound(row, col), 0.2 * (std::fabs(right) + 1));
    }
  }
}

}  // namespace
}  // namespace stretto

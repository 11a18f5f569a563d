// Teams in graphs: their text, who has which part of a tensor, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "stretto/error.h"
#include "stretto/operator.h"
#include "stretto/reference.h"

namespace stretto {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr char kMlp[] =
    "graph own m h f\n"
    "team tp 4\n"
    "input x [m, h] rows of tp\n"
    "input wg [f, h] rows of tp\n"
    "input wd [h, f] cols of tp\n"
    "g = gemm x wg\n"
    "a = silu g\n"
    "y = gemm a wd\n"
    "output y rows of tp\n";

Operator mlp(int ranks, int64_t m = 16) {
  return make_graph(parse_graph(kMlp), {{"m", m}, {"h", 32}, {"f", 64}}, ranks, DType::bf16);
}

std::string refusal(const std::string& lines, int ranks = 8, int64_t m = 16) {
  try {
    make_graph(parse_graph("graph own m h\n" + lines, "my.graph"), {{"m", m}, {"h", 32}}, ranks,
               DType::bf16);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "served";
}

TEST(TeamsOfGraphs, AreTextThatComesBack) { EXPECT_EQ(print(*parse_graph(kMlp)), kMlp); }

TEST(TeamsOfGraphs, HaveRowsOfTheirOwnAndAllOfEachWeight) {
  const Operator op = mlp(8);
  const auto slice = [&](std::string_view tensor, Held held, int rank) {
    return slice_of(op, *op.find_tensor(tensor), held, rank);
  };
  EXPECT_EQ(slice("x", Held::rows, 5), (Slice{10, 12, 0, 32}));
  EXPECT_EQ(slice("g", Held::cols, 5), (Slice{8, 16, 16, 32}));
  EXPECT_EQ(slice("wg", Held::rows, 5), (Slice{16, 32, 0, 32}));
  EXPECT_EQ(slice("wd", Held::cols, 1), slice("wd", Held::cols, 5));
  EXPECT_EQ(slice("y", Held::partial, 3), (Slice{0, 8, 0, 32}));
  EXPECT_EQ(slice("y", Held::rows, 5), (Slice{10, 12, 0, 32}));
}

TEST(TeamsOfGraphs, HaveSegmentsOfTheirRanksAndRows) {
  const Operator op = mlp(8);
  ASSERT_EQ(op.segments.size(), 2u);
  const Segment& first = *op.segments[0].product;
  EXPECT_EQ(first.kind, kAgGemm);
  EXPECT_EQ(first.ranks, 4);
  EXPECT_EQ(first.teams, 2);
  EXPECT_EQ(first.m, 8);
  EXPECT_EQ(op.segments[1].product->kind, kGemmRs);
  EXPECT_TRUE(op.has_teams());
  EXPECT_FALSE(mlp(4).has_teams());
  EXPECT_EQ(mlp(4).segments[0].product->teams, 1);
}

TEST(TeamsOfGraphs, AreRefusedInTheirText) {
  EXPECT_THAT(
      refusal("team tp 4\nteam tp 2\nteam nobody 2\n"
              "input x [m, h] cols of tp\n"
              "input v [h, h] cols of tq\n"
              "y = silu x\n"
              "output y cols of\n"),
      AllOf(HasSubstr("my.graph:3:6: team tp is there twice"),
            HasSubstr("my.graph:6:24: unknown team 'tq' (did you mean 'tp'?); known: tp, nobody"),
            HasSubstr("my.graph:8:17: expected the name of a team, found the end of the "
                      "line")));
  EXPECT_THAT(refusal("input x [m, h] cols of tp\ny = silu x\noutput y cols\n"),
              HasSubstr("my.graph:2:24: no team 'tp': a line above says it, as in \"team tp 4\""));
  EXPECT_THAT(refusal("team tp 4\ninput x [m, h] rows\ny = silu x\noutput y rows\n"),
              HasSubstr("my.graph:2:6: no input is of team tp"));
}

std::string of_size(const std::string& size, int ranks) {
  return refusal(
      "team tp " + size + "\ninput x [m, h] cols of tp\ny = silu x\noutput y cols of tp\n", ranks);
}

TEST(TeamsOfGraphs, DivideTheRanks) {
  EXPECT_EQ(of_size("4", 8), "served");
  EXPECT_EQ(of_size("1", 8), "served");
  EXPECT_EQ(of_size("8", 8), "served");
  for (const char* size : {"0", "3", "16", "m*m*m*m*m*m*m*m*m*m*m*m*m*m*m*m*m"}) {
    EXPECT_EQ(of_size(size, 8), "own: my.graph:2:6: team tp of " + std::string(size) +
                                    " ranks, and 8 ranks are whole teams of: 1, 2, 4, 8");
  }
}

TEST(TeamsOfGraphs, HaveWholeRowsAndColumnsEach) {
  EXPECT_EQ(
      refusal("team tp 4\ninput x [m, h] cols of tp\ny = silu x\noutput y cols of tp\n", 8, 18),
      "own: my.graph:3:7: 18 rows are dealt to teams, as many to each of 8 ranks: take 16 or "
      "24");
  EXPECT_EQ(refusal("team tp 4\ninput x [m, h+2] cols of tp\ny = silu x\noutput y cols of tp\n"),
            "own: my.graph:3:7: 34 columns of x are dealt to teams of 4 ranks, which must divide "
            "them: take 32 or 36");
}

TEST(TeamsOfGraphs, AreConnectedByOwnRowsOnly) {
  EXPECT_THAT(
      refusal("team tp 4\nteam sp 2\n"
              "input x [m, h] cols of tp\n"
              "input v [h, h] cols of sp\n"
              "input w [h, h] cols of tp\n"
              "y = gemm x v\n"
              "z = gemm x w\n"
              "output y rows\n"
              "output z whole\n"),
      AllOf(HasSubstr(
                "my.graph:7:10: gemm needs v held by teams of 4 ranks, and it is held as cols by "
                "teams of 2 ranks: there is no edge from one to the other"),
            HasSubstr("my.graph:10:8: output z is to be held by all ranks, and it is made "
                      "by teams of 4 ranks: there is no edge")));
  EXPECT_THAT(
      refusal("team tp 4\n"
              "input x [m, h] whole\n"
              "input w [h, h] cols of tp\n"
              "y = gemm x w\n"
              "output y rows\n"),
      HasSubstr(
          "gemm needs x held by teams of 4 ranks, and it is held as whole by all ranks: there is "
          "no edge"));
  EXPECT_THAT(refusal("team tp 4\n"
                      "input w [h, h] cols of tp\n"
                      "y = gemm w w\n"
                      "output y rows\n"),
              HasSubstr("my.graph:3:7: w is a weight, which every team has, and has rows, which "
                        "are dealt to teams: give it as two inputs"));
  EXPECT_THAT(refusal("team tp 4\n"
                      "input x [m, h] rows\n"
                      "input ids [m, 2] rows of tp i32\n"
                      "input w [8, h, h] rows\n"
                      "y = grouped x w ids\n"
                      "output y cols\n"),
              HasSubstr("my.graph:4:7: ids is of teams of 4 ranks: stacks and what goes by them "
                        "are of all ranks"));
  // What a team's ranks have whole is a block of the rows.
  EXPECT_THAT(refusal("team tp 4\n"
                      "input x [m, h] whole of tp\n"
                      "input ids [m, 2] rows i32\n"
                      "input weights [m, 2] rows fp32\n"
                      "d = permute x ids experts=8\n"
                      "y = weigh d ids weights\n"
                      "output y rows\n"),
              HasSubstr("my.graph:6:13: permute needs x held by all ranks, and it is held as whole "
                        "by teams of 4 ranks: there is no edge from one to the other"));
  EXPECT_THAT(refusal("team tp 4\nteam sp 2\n"
                      "input x [m, h] cols of tp\n"
                      "input v [m, h] cols of sp\n"
                      "input r [m, h] rows\n"
                      "input w [h, h] whole\n"
                      "y = gemm r w\n"
                      "a = add x y\n"
                      "b = add v y\n"
                      "output a cols of tp\n"
                      "output b cols of sp\n"),
              HasSubstr("y is needed as cols by teams of two sizes: compute it once for each"));
  // What a team has waited for is not what all ranks have.
  EXPECT_THAT(refusal("team tp 4\n"
                      "input x [m, h] cols of tp\n"
                      "input w [h, h] cols of tp\n"
                      "y = gemm x w\n"
                      "z = silu y\n"
                      "output z whole\n"),
              HasSubstr("output z is gathered before all ranks are known to have begun"));
}

}  // namespace
}  // namespace stretto

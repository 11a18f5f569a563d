// Faults of a graph's text: of all kinds told together, each with its place, and none that follows
// from another.
#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <functional>

#include "core/text.h"
#include "op/graph_text.h"
#include "op/read_graph.h"
#include "refusal.h"
#include "stretto/operator.h"

namespace stretto {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::string refused_text(std::string_view text) {
  return refusal([&] { parse_graph(text, "my.graph"); });
}

std::string refused(std::string_view text, const Sizes& sizes, int ranks = 2) {
  return refusal([&] { make_graph(read_graph(text, "my.graph"), sizes, ranks, DType::bf16); });
}

// "LINE:COLUMN" of each reason.
std::vector<std::string> places(std::string_view refused) {
  constexpr std::string_view kFile = "my.graph:";
  std::vector<std::string> out;
  for (size_t at = 0; (at = refused.find(kFile, at)) != std::string_view::npos;) {
    at += kFile.size();
    out.emplace_back(refused.substr(at, refused.find(": ", at) - at));
  }
  return out;
}

// Sizes that every shipped operator can be of, on 2 ranks.
Sizes some_sizes(const GraphText& graph) {
  const auto& names = sizes_of(graph);
  const bool has_experts = std::find(names.begin(), names.end(), "experts") != names.end();
  Sizes sizes;
  for (const std::string& name : names) {
    int64_t size = 64;
    if (name == "heads" || name == "kv-heads" || name == "experts") size = 8;
    if (name == "groups" || name == "tables" || name == "pool") size = 4;
    if (name == "best" || name == "slices" || (name == "k" && has_experts)) size = 2;
    sizes.emplace_back(name, size);
  }
  return sizes;
}

TEST(CyclesOfGraphs, AreNamedWhereverTheyClose) {
  constexpr std::string_view kRight =
      "; make one of them of inputs, or of tensors that lines above make";
  EXPECT_EQ(refused_text("graph g m\ninput i [m, m] rows\nx = add i y\ny = silu x\n"
                         "output y rows\n"),
            "my.graph:3:11: a cycle of 2 tensors, and a graph has none: x needs y, y needs x" +
                std::string(kRight));
  // Of three, by whatever lines they are made: once.
  EXPECT_EQ(refused_text("graph g m\ninput i [m, m] rows\nx = add y i\ny = silu z\nz = gelu x\n"
                         "output x rows\n"),
            "my.graph:3:9: a cycle of 3 tensors, and a graph has none: x needs y, y needs z, z "
            "needs x" +
                std::string(kRight));
  EXPECT_EQ(refused_text("graph g m\ninput i [m, m] rows\ny = add z i\nx = silu y\nz = gelu x\n"
                         "output z rows\n"),
            "my.graph:3:9: a cycle of 3 tensors, and a graph has none: y needs z, z needs x, x "
            "needs y" +
                std::string(kRight));
  EXPECT_EQ(refused_text("graph g m\ninput i [m, m] rows\ny = add i y\noutput y rows\n"),
            "my.graph:3:11: tensor y is made by this very stage: a graph has no cycles; make it of "
            "inputs, or of tensors that lines above make");
}

TEST(CyclesOfGraphs, AreToldEachAndNotAsLinesInAWrongOrder) {
  // Two that share a tensor, and one that shares none.
  EXPECT_THAT(places(refused_text("graph g m\ninput i [m, m] rows\n"
                                  "a = add b c\nb = silu a\nc = gelu a\n"
                                  "d = add e i\ne = silu d\n"
                                  "output b rows\noutput c rows\noutput e rows\n")),
              ElementsAre("3:9", "3:11", "6:9"));
  EXPECT_EQ(refused_text("graph g m\ninput i [m, m] rows\ny = silu x\nx = gelu i\n"
                         "output y rows\n"),
            "my.graph:3:10: tensor x is made below, in line 4: a tensor is made in a line above "
            "its use");
  EXPECT_EQ(refused_text("graph g m\ninput i [m, m] rows\noutput y rows\ny = silu i\n"),
            "my.graph:3:8: tensor y is made below, in line 4: a tensor is made in a line above "
            "its use");
  // A stage of no kind is part of one, too.
  EXPECT_THAT(places(refused_text("graph g m\ninput i [m, m] rows\nx = ad i y\ny = silu x\n"
                                  "output y rows\n")),
              ElementsAre("3:5", "3:10"));
}

TEST(CyclesOfGraphs, OfVeryManyLinesAreFoundSoon) {
  constexpr int kLines = 10000;
  const auto lines = [](const std::function<int(int)>& needed) {
    std::string text = "graph g m\ninput i [m, m] rows\n";
    for (int i = 0; i < kLines; ++i) {
      text += "t" + std::to_string(i) + " = silu t" + std::to_string(needed(i)) + "\n";
    }
    return text + "output t0 rows\n";
  };
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THAT(refused_text(lines([](int i) { return (i + 1) % kLines; })),
              AllOf(HasSubstr("my.graph:3:11: a cycle of 10000 tensors, and a graph has none: t0 "
                              "needs t1, t1 needs t2, "),
                    HasSubstr(", ... (9992 more), t9998 needs t9999, t9999 needs t0; make"),
                    HasSubstr("my.graph:4099:1: a graph has at most 4096 stages")));
  const std::string pairs = refused_text(lines([](int i) { return i ^ 1; }));
  EXPECT_THAT(pairs, AllOf(HasSubstr("my.graph:3:11: a cycle of 2 tensors"),
                           HasSubstr("my.graph:5:11: a cycle of 2 tensors"),
                           HasSubstr("; and there may be more")));
  EXPECT_LT(pairs.size(), 5000u);
  // None of these is in a cycle.
  EXPECT_THAT(refused_text(lines([](int i) { return i + 1; })),
              AllOf(HasSubstr("my.graph:3:11: tensor t1 is made below, in line 4"),
                    Not(HasSubstr("cycle"))));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

constexpr std::string_view kAll =
    "graph g m h\n"
    "input x [m, h] cols\n"
    "input w [h, h] rows\n"
    "input v [m, h+8] rows\n"
    "broken line\n"
    "a = add x b\n"
    "b = silu a\n"
    "y = gemm x w\n"
    "s = add x v\n"
    "output y rows\n"
    "output s rows\n"
    "output b rows\n";

TEST(FaultsOfGraphs, OfAllKindsAreToldTogether) {
  const std::string text =
      "my.graph:5:1: unknown word at the beginning of a line 'broken'; known: graph, team, kernel, "
      "input, output; my.graph:6:11: a cycle of 2 tensors, and a graph has none: a needs b, b "
      "needs a; make one of them of inputs, or of tensors that lines above make; ";
  const std::string edge =
      "my.graph:8:10: gemm needs x held as whole, and it is cols: there is no edge from one to the "
      "other; take one that is whole, rows, partial";
  const std::string shape =
      "; my.graph:9:9: both operands have one shape: x [16, 64] and v [16, 72]";
  EXPECT_EQ(refused(kAll, {{"m", 16}, {"h", 64}}), text + edge + shape);
  // Edges hang on no sizes.
  EXPECT_EQ(refused_text(kAll), text + edge);
  EXPECT_EQ(refused(kAll, {{"m", 16}}), text + "h= is missing; " + edge);
}

TEST(FaultsOfGraphs, OfSizesAreToldWithEdges) {
  EXPECT_EQ(refused("graph g m h\ninput x [m, h] cols\ninput w [h, h] rows\ny = gemm x w\n"
                    "output y cols\n",
                    {{"m", 0}, {"h", 64}}),
            "g: m is 0: plans are for rows that there are; take 1 or more (a call of 0 rows does "
            "nothing and needs no plan); my.graph:4:10: gemm needs x held as whole, and it "
            "is cols: there is no edge from one to the other; take one that is whole, rows, "
            "partial");
  // What words must be operands' alone is no fault of theirs where the graph's are not known.
  EXPECT_EQ(refusal([] {
              parse_operator("g m=8 ranks=2 dtype=bf16", {},
                             read_graph("graph g m h\ninput x [m, h] rows\ny = gem x\n"
                                        "output y rows\n",
                                        "my.graph"));
            }).substr(0, 40),
            "my.graph:3:5: unknown kind of stage 'gem");
}

TEST(FaultsOfGraphs, OfNoRowsSayThatCallsOfNoneNeedNoPlan) {
  for (const char* name : {"mlp", "moe-ep", "embedding-a2a"}) {
    Sizes sizes = some_sizes(*find_graph(name));
    sizes.front().second = 0;
    EXPECT_THAT(refusal([&] { make_operator(name, sizes, 2); }),
                HasSubstr(" is 0: plans are for rows that there are; take 1 or more"));
    sizes.front().second = 1;
    EXPECT_EQ(refusal([&] { make_operator(name, sizes, 2); }), "accepted");
  }
}

TEST(FaultsOfGraphs, OfShapesAreToldOfWhatIsKnown) {
  // Columns of x are not known, and y has none of them.
  EXPECT_EQ(places(refused("graph g m h\ninput x [m, q] rows\ninput w [h, h] rows\n"
                           "input n [1, h+1] whole\ny = gemm x w\nz = bias y n\noutput z cols\n",
                           {{"m", 16}, {"h", 64}})),
            (std::vector<std::string>{"2:13", "6:10"}));
  // However x is held, a gemm's columns must fit.
  EXPECT_EQ(places(refused("graph g m h\ninput x [m, h] diagonal\ninput w [h, h+8] rows\n"
                           "y = gemm x w\noutput y cols\n",
                           {{"m", 16}, {"h", 64}})),
            (std::vector<std::string>{"2:16", "4:10"}));
  // Nobody knows which of x and v is as large as n expects.
  EXPECT_EQ(places(refused("graph g m h\ninput x [m, h] rows\ninput v [m, h+8] rows\n"
                           "input n [1, h+8] whole\ny = add x v\nz = norm y n\noutput z rows\n",
                           {{"m", 16}, {"h", 64}})),
            (std::vector<std::string>{"5:9"}));
}

TEST(FaultsOfGraphs, DoNotFollowFromOthers) {
  // A misspelt operand is no reason to say that nothing uses the right one.
  EXPECT_EQ(refused_text("graph g m\ninput x [m, m] rows\ny = silu xx\noutput y rows\n"),
            "my.graph:3:10: unknown tensor 'xx' (did you mean 'x'?); known: x; a tensor is made in "
            "a line above its use");
  EXPECT_THAT(places(refused_text("grph g m h\ninput x [m, h] rows\ny = silu x\noutput y rows\n")),
              ElementsAre("1:1"));
  EXPECT_THAT(places(refused_text("graph g m\nteam 4\ninput x [m, m] cols of tp\ny = silu x\n"
                                  "output y cols of tp\n")),
              ElementsAre("2:6"));
  // The second y may be the one that is meant.
  EXPECT_THAT(places(refused("graph g m h\ninput x [m, h] rows\ninput w [h, h] whole\n"
                             "y = gemm x w\ny = silu x\nz = norm y w\noutput y cols\n"
                             "output z rows\n",
                             {{"m", 16}, {"h", 64}})),
              ElementsAre("5:1"));
  EXPECT_THAT(places(refused_text("team tp 4\ngraph g m\ninput x [m, q] cols of tp\ny = silu x\n"
                                  "output y cols of tp\n")),
              ElementsAre("1:1", "3:13"));
}

std::string replaced(std::string line, std::string_view from, std::string_view to) {
  const size_t at = line.find(from);
  return at == std::string::npos ? line : line.replace(at, from.size(), to);
}

// What may be wrong with a line.
std::vector<std::string> damaged(const std::string& line) {
  return {"?" + line,
          "z" + line,
          line + " $",
          line.substr(0, line.rfind(' ')),
          line.substr(0, line.size() / 2),
          replaced(line, " = ", " = no-"),
          replaced(line, " = ", " "),
          replaced(line, "]", "+q]"),
          replaced(line, "]", ""),
          replaced(line, "] ", "] diagonally-"),
          replaced(line, "=", "=="),
          replaced(line, "input ", "inptu "),
          replaced(line, "output ", "output 9"),
          replaced(line, "output ", "ouput ")};
}

TEST(FaultsOfGraphs, OfOneLineAreOfNoOther) {
  int refused_lines = 0;
  for (const auto& graph : known_graphs()) {
    const std::string whole = print(*graph);
    const Sizes sizes = some_sizes(*graph);
    ASSERT_EQ(refused(whole, sizes), "accepted") << whole;
    EXPECT_TRUE(faults_without_sizes(graph).empty()) << whole;
    const std::vector<std::string_view> lines = split(whole, '\n');
    for (size_t i = 0; i + 1 < lines.size(); ++i) {  // behind the last there is nothing
      for (const std::string& bad : damaged(std::string(lines[i]))) {
        std::vector<std::string> text(lines.begin(), lines.end());
        text[i] = bad;
        // Legal, and of another tensor: lines that use it have faults of their own.
        if (read_graph(join(text, "\n"), "my.graph")->faults.empty()) continue;
        if (bad.starts_with("graph ") && !bad.ends_with("$")) continue;  // of other sizes
        const bool is_renamed = bad[0] == 'z' && lines[i].find(" = ") != std::string_view::npos;
        if (is_renamed) continue;
        const std::string what = refused(join(text, "\n"), sizes);
        for (const std::string& place : places(what)) {
          EXPECT_EQ(place.substr(0, place.find(':')), std::to_string(i + 1)) << bad << "\n" << what;
        }
        ++refused_lines;
      }
    }
  }
  EXPECT_GT(refused_lines, 1000);
}

}  // namespace
}  // namespace stretto

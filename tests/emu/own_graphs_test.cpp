// Graphs that no shipped operator is like: who holds what in ways that stages must find their way
// through.
#include <gtest/gtest.h>

#include "op/graph_text.h"
#include "own_graph.h"
#include "right_plans.h"

namespace stretto {
namespace {

constexpr OwnGraph kGraphs[] = {
    {"TermsOfAWholeInput",
     "input x [m, f] whole\n"
     "input w [h, f] cols\n"
     "y = gemm x w\n"
     "output y rows\n"},
    {"TermsOfWhatEveryRankComputes",
     "input x [m, f] whole\n"
     "input w [h, f] cols\n"
     "g = gelu x\n"
     "y = gemm g w\n"
     "output y whole\n"},
    {"AWholeRowAddedToColumns",
     "input x [m, f] cols\n"
     "input b [1, f] whole\n"
     "input w [h, f] cols\n"
     "t = bias x b\n"
     "y = gemm t w\n"
     "output y rows\n"
     "output t cols\n"},
    {"SumsOfInputs",
     "input x [m, h] rows\n"
     "twice = add x x\n"
     "y = add twice x\n"
     "output y rows\n"},
    {"ANormOfSumsWithoutAResidual",
     "input x [m, f] cols\n"
     "input w [h, f] cols\n"
     "input g [1, h] whole\n"
     "y = gemm x w\n"
     "n = norm y g\n"
     "z = gelu n\n"
     "output z rows\n"
     "output y rows\n"},
    {"AProductOfAnAllReduce",
     "input x [m, f] cols\n"
     "input w [h, f] cols\n"
     "input v [f, h] rows\n"
     "y = gemm x w\n"
     "z = gemm y v\n"
     "output z cols\n"
     "output y whole\n"},
    {"AProductOnEveryRank",
     "input x [m, h] whole\n"
     "input v [f, h] whole\n"
     "y = gemm x v\n"
     "output y whole\n"},
    {"AGatedProductOnEveryRankThatANormTakes",
     "input x [m, h] whole\n"
     "input v [f, h] whole\n"
     "input u [f, h] whole\n"
     "input g [1, f] whole\n"
     "input w [h, f] cols\n"
     "a = gemm x v\n"
     "b = gemm x u\n"
     "c = swiglu a b\n"
     "n = norm c g\n"
     "y = gemm n w\n"
     "output y rows\n"
     "output c whole\n"},
    {"AGateThatIsMadeBehindWhatItGates",
     "input x [m, h] rows\n"
     "input v [f, h] rows\n"
     "input u [f, h] rows\n"
     "a = gemm x v\n"
     "b = gemm x u\n"
     "c = swiglu b a\n"
     "output c cols\n"},
    {"ANormOfAllRowsAddedToOwnOnes",
     "input x [m, h] whole\n"
     "input g [1, h] whole\n"
     "input r [m, h] rows\n"
     "n = norm x g\n"
     "y = add n r\n"
     "output y rows\n"},
    {"AResidualOfASumThatNothingNorms",
     "input x [m, f] cols\n"
     "input w [h, f] cols\n"
     "input r [m, h] whole\n"
     "p = gemm x w\n"
     "s = add r p\n"
     "output s whole\n"},
    {"ResidualsOfAllReducesThatFollowOneAnother",
     "input x [m, f] cols\n"
     "input w [h, f] cols\n"
     "input v [f, h] rows\n"
     "input u [h, f] cols\n"
     "input r [m, h] whole\n"
     "input g [1, h] whole\n"
     "p = gemm x w\n"
     "s = add p r\n"
     "t = norm s g\n"
     "up = gemm t v\n"
     "down = gemm up u\n"
     "z = add down s\n"
     "n = norm z g\n"
     "output n whole\n"
     "output z whole\n"},
    {"AResidualThatIsASumWhoseTermsOthersTake",
     "input x [m, f] cols\n"
     "input w [h, f] cols\n"
     "input u [h, f] cols\n"
     "p = gemm x w\n"
     "q = gemm x u\n"
     "s = add q p\n"
     "output s rows\n"
     "output p rows\n"},
    {"ASumOfAllRowsThatANormTakes",
     "input x [m, f] cols\n"
     "input w [h, f] cols\n"
     "input g [1, h] whole\n"
     "p = gemm x w\n"
     "n = norm p g\n"
     "output n whole\n"},
    {"AnActivationOfAllColumnsAddedToOwnOnes",
     "input x [m, f] whole\n"
     "input r [m, f] cols\n"
     "a = silu x\n"
     "y = add a r\n"
     "output y cols\n"
     "output a whole\n"},
};

class OwnGraphs : public testing::TestWithParam<OwnGraph> {};
INSTANTIATE_TEST_SUITE_P(, OwnGraphs, testing::ValuesIn(kGraphs),
                         [](const auto& tested) { return std::string(tested.param.name); });

TEST_P(OwnGraphs, AreProvedAndRightUnderEveryPreset) {
  const auto graph = parse_graph(std::string("graph own m h f\n") + GetParam().lines);
  for (const int ranks : {1, 2, 3}) {
    for (const int64_t m : {1, 7, 40}) {
      const Operator op = make_graph(graph, {{"m", m}, {"h", 48}, {"f", 96}}, ranks, DType::bf16);
      const Machine machine = default_machine(ranks);
      for (const Preset& preset : presets()) {
        expect_right(op, preset, machine);
      }
    }
  }
}

}  // namespace
}  // namespace stretto

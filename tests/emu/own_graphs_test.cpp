// Graphs that no shipped operator is like: who holds what in ways that stages must find their way
// through.
#include <gtest/gtest.h>

#include <ostream>

#include "stretto/check.h"
#include "stretto/emulate.h"
#include "stretto/lower.h"

namespace stretto {
namespace {

struct OwnGraph {
  const char* name;
  const char* lines;
};

void PrintTo(const OwnGraph& graph, std::ostream* out) { *out << graph.name; }

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
    {"AProductOfAnAllReduce",
     "input x [m, f] cols\n"
     "input w [h, f] cols\n"
     "input v [f, h] rows\n"
     "y = gemm x w\n"
     "z = gemm y v\n"
     "output z cols\n"
     "output y whole\n"},
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
        SCOPED_TRACE(std::string(preset.name) + " " + to_string(op));
        const OperatorSchedule schedule = schedule_of(preset, op, machine);
        if (!legal(op, schedule, machine).empty()) continue;
        const Plan plan = lower(op, schedule, machine);
        EXPECT_TRUE(check(plan).clean());
        EXPECT_EQ(emulate(plan).first_wrong, "");
      }
    }
  }
}

}  // namespace
}  // namespace stretto

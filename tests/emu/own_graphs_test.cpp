// Graphs that no shipped operator is like: who holds what in ways that stages must find their way
// through.
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>

#include "op/graph_text.h"
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

void expect_right(const Operator& op, const Preset& preset, const Machine& machine, int split = 1) {
  OperatorSchedule schedule = schedule_of(preset, op, machine);
  schedule.split = split;
  SCOPED_TRACE(std::string(preset.name) + " " + to_string(op));
  if (!legal(op, schedule, machine).empty()) return;
  const Plan plan = lower(op, schedule, machine);
  EXPECT_TRUE(check(plan).clean());
  EXPECT_EQ(emulate(plan).first_wrong, "");
}

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

// From attention's result to the next layer's products, experts in between.
constexpr char kLayerOfExperts[] =
    "graph layer-of-experts m h f a e k\n"
    "input c [m, a] cols\n"
    "input x [m, h] rows\n"
    "input wo [h, a] cols\n"
    "input w1 [1, h] whole\n"
    "input wr [e, h] whole\n"
    "input wg [e, f, h] experts\n"
    "input wd [e, h, f] experts\n"
    "input w2 [1, h] whole\n"
    "input wq [a, h] rows\n"
    "o = gemm c wo\n"
    "s = add o x\n"
    "n = norm s w1\n"
    "scores = gemm n wr\n"
    "ids = top_k scores k=k\n"
    "weights = softmax_gate scores ids\n"
    "g = grouped n wg ids\n"
    "b = gelu g\n"
    "d = grouped b wd ids\n"
    "y = weigh d ids weights\n"
    "z = silu y\n"
    "t = norm z w2\n"
    "q = gemm t wq\n"
    "output q cols\n"
    "output z rows\n";

TEST(OwnGraphsOfExperts, HaveProductsBeforeAndBehindThem) {
  const auto graph = parse_graph(kLayerOfExperts);
  for (const int64_t k : {1, 2}) {
    const Operator op = make_graph(
        graph, {{"m", 37}, {"h", 64}, {"f", 32}, {"a", 64}, {"e", 8}, {"k", k}}, 2, DType::bf16);
    const Machine machine = default_machine(2);
    for (const std::string_view preset : {"sequential", "tiles", "slices"}) {
      for (const int split : {1, 2, 3}) expect_right(op, find_preset(preset), machine, split);
    }
  }
}

// Its tiles are no entries of a partition, whatever their size.
TEST(OwnGraphsOfExperts, TakeWhatAProductMakes) {
  const auto graph = parse_graph(
      "graph projected m h f e k\n"
      "input x [m, h] rows\n"
      "input p [h, h] whole\n"
      "input ids [m, k] rows i32\n"
      "input weights [m, k] rows fp32\n"
      "input wg [e, f, h] experts\n"
      "input wd [e, h, f] experts\n"
      "t = gemm x p\n"
      "g = grouped t wg ids\n"
      "b = silu g\n"
      "d = grouped b wd ids\n"
      "y = weigh d ids weights\n"
      "output y rows\n");
  const Operator op =
      make_graph(graph, {{"m", 37}, {"h", 64}, {"f", 32}, {"e", 8}, {"k", 2}}, 2, DType::bf16);
  const Machine machine = default_machine(2);
  for (const std::string_view preset : {"sequential", "tiles", "slices"}) {
    EXPECT_EQ(legal(op, schedule_of(find_preset(preset), op, machine), machine).size(), 0u);
    for (const int split : {1, 2}) expect_right(op, find_preset(preset), machine, split);
  }
}

TEST(OwnGraphsOfExperts, HaveGatesBehindWhatTheyGate) {
  const auto graph = parse_graph(
      "graph gated-by-the-second m h f e k\n"
      "input x [m, h] rows\n"
      "input ids [m, k] rows i32\n"
      "input wu [e, f, h] rows\n"
      "input wg [e, f, h] rows\n"
      "u = grouped x wu ids\n"
      "g = grouped x wg ids\n"
      "a = swiglu g u\n"
      "output a cols\n");
  const Machine machine = default_machine(2);
  const Operator op =
      make_graph(graph, {{"m", 37}, {"h", 72}, {"f", 32}, {"e", 4}, {"k", 2}}, 2, DType::bf16);
  for (const std::string_view preset : {"sequential", "library", "tiles"}) {
    EXPECT_EQ(legal(op, schedule_of(find_preset(preset), op, machine), machine).size(), 0u);
    expect_right(op, find_preset(preset), machine);
  }
}

// Tokens that all ranks have, as without sequence parallelism.
TEST(OwnGraphsOfExperts, ChooseOnEveryRank) {
  const auto graph = parse_graph(
      "graph routed-everywhere m h f e k\n"
      "input x [m, h] whole\n"
      "input wr [e, h] whole\n"
      "input wg [e, f, h] rows\n"
      "input wd [e, h, f] cols\n"
      "scores = gemm x wr\n"
      "ids = top_k scores k=k\n"
      "weights = softmax_gate scores ids\n"
      "g = grouped x wg ids\n"
      "b = silu g\n"
      "d = grouped b wd ids\n"
      "y = weigh d ids weights\n"
      "output y whole\n");
  const Operator op =
      make_graph(graph, {{"m", 37}, {"h", 64}, {"f", 32}, {"e", 8}, {"k", 2}}, 2, DType::bf16);
  const Machine machine = default_machine(2);
  for (const std::string_view preset : {"sequential", "tiles"}) {
    for (const int split : {1, 2}) expect_right(op, find_preset(preset), machine, split);
  }
}

// Sums of terms that ranks store in fp16 are no longer exact beyond 2048. Weights are made for what
// they multiply first, so that tensors grow where they are taken again.
TEST(OwnGraphsOfIntegers, AreJudgedByABoundWhereTheyAreRounded) {
  const auto graph = parse_graph(
      "graph deep m h\n"
      "input x [m, h] whole\n"
      "input v [h, h] whole\n"
      "input w [h, h] cols\n"
      "s = gemm x w\n"
      "y = gemm x v\n"
      "z = gemm y v\n"
      "u = gemm z v\n"
      "t = gemm u w\n"
      "output s rows\n"
      "output t rows\n");
  const Machine machine = default_machine(2);
  EmulateOptions options;
  options.fill = Fill::integers;
  for (const int64_t h : {256, 512}) {
    const Operator op = make_graph(graph, {{"m", 16}, {"h", h}}, 2, DType::fp16);
    const Plan plan = lower(op, schedule_of(find_preset("tiles"), op, machine), machine);
    const EmulateResult found = emulate(plan, options);
    EXPECT_EQ(found.first_wrong, "");
    EXPECT_GT(found.worst_error, 0) << "nothing was rounded of " << h;
  }
}

Operator two_grouped(std::string_view choices) {
  return make_graph(parse_graph("graph two t h f e k\ninput x [t, h] rows\n"
                                "input wu [e, f, h] rows\ninput wd [e, h, f] cols\n" +
                                std::string(choices) +
                                "u = grouped x wu ids\n"
                                "d = grouped u wd ids\n"
                                "y = weigh d ids weights\n"
                                "output y rows\n"),
                    {{"t", 64}, {"h", 64}, {"f", 64}, {"e", 16}, {"k", 8}}, 4, DType::bf16);
}

EmulateResult run_on_integers(const Operator& op, std::string_view preset) {
  const Machine machine = default_machine(op.ranks);
  return emulate(lower(op, schedule_of(find_preset(preset), op, machine), machine),
                 {.fill = Fill::integers});
}

// Sums of eight times as many, each once or twice, are still integers that bf16 has.
TEST(OwnGraphsOfIntegers, AreExactWhereTheyAreWeighed) {
  const Operator op = two_grouped("input ids [t, k] rows i32\ninput weights [t, k] rows fp32\n");
  for (const std::string_view preset : {"sequential", "tiles"}) {
    const EmulateResult found = run_on_integers(op, preset);
    EXPECT_TRUE(found.verified) << preset << ": " << found.first_wrong;
    EXPECT_EQ(found.worst_error, 0);
  }
}

// The products are exact, but ranks round what they make of them with weights that are none.
TEST(OwnGraphsOfIntegers, AreJudgedByABoundWhereAGateWeighsThem) {
  const Operator op = two_grouped(
      "input wr [e, h] whole\ns = gemm x wr\nids = top_k s k=k\n"
      "weights = sigmoid_gate s ids\n");
  for (const std::string_view preset : {"sequential", "tiles"}) {
    const EmulateResult found = run_on_integers(op, preset);
    EXPECT_TRUE(found.verified) << preset << ": " << found.first_wrong;
    EXPECT_GT(found.worst_error, 0.05);
  }
}

// What a gate has weighed, normed and multiplied is no integer, so that of equal scores either may
// come out larger.
TEST(OwnGraphsOfIntegers, AreNotHeldToChoicesAmongScoresThatAreEqualButForRounding) {
  const auto graph = parse_graph(
      "graph tie t h experts k\n"
      "input x [t, h] whole\n"
      "input wr [experts, h] whole\n"
      "input nw [1, h] whole\n"
      "input wn [experts, h] whole\n"
      "s = gemm x wr\n"
      "ids = top_k s k=k\n"
      "w = sigmoid_gate s ids\n"
      "d = permute x ids experts=experts\n"
      "y = weigh d ids w\n"
      "r = add y x\n"
      "n = norm r nw\n"
      "z = gemm n wn\n"
      "chosen = top_k z k=k\n"
      "output chosen rows\n");
  const Operator op =
      make_graph(graph, {{"t", 100}, {"h", 16}, {"experts", 6}, {"k", 3}}, 2, DType::fp32);
  const EmulateResult found = run_on_integers(op, "tiles");
  EXPECT_TRUE(found.verified) << found.first_wrong;
}

// Parts of a softmax of far apart scores are so small that sums are among fp16's subnormal numbers.
TEST(OwnGraphsOfIntegers, AreJudgedByABoundWhereSumsAreSubnormal) {
  const auto graph = parse_graph(
      "graph small t h f experts k\n"
      "input x [t, h] rows\n"
      "input wr [experts, h] whole\n"
      "input c [1, experts] whole\n"
      "input wu [experts, f, h] experts\n"
      "input wd [experts, h, f] experts\n"
      "s = gemm x wr\n"
      "ids = biased_top_k s c k=k\n"
      "w = softmax_gate s ids normalise=0\n"
      "u = grouped x wu ids\n"
      "a = gelu u\n"
      "d = grouped a wd ids\n"
      "y = weigh d ids w\n"
      "output y rows\n");
  const Operator op = make_graph(
      graph, {{"t", 65}, {"h", 32}, {"f", 64}, {"experts", 12}, {"k", 3}}, 4, DType::fp16);
  const EmulateResult found = run_on_integers(op, "tiles");
  EXPECT_TRUE(found.verified) << found.first_wrong;
}

// Two layers of experts that go by the same ids: collectives send ids once, with the tokens of one
// layer, so what is not refused has those of both.
TEST(LayersOfTheSameIds, AreRefusedByIdsAndRightOtherwise) {
  const auto graph = parse_graph(
      "graph twice t h f experts k\n"
      "input x [t, h] rows\ninput ids [t, k] rows i32\ninput weights [t, k] rows fp32\n"
      "input w [experts, f, h] experts\ninput v [experts, h, f] experts\n"
      "input p [experts, f, h] experts\ninput q [experts, h, f] experts\n"
      "a = grouped x w ids\nb = grouped a v ids\ny = weigh b ids weights\ns = add y x\n"
      "c = grouped s p ids\nd = grouped c q ids\nz = weigh d ids weights\noutput z rows\n");
  const Operator op =
      make_graph(graph, {{"t", 5}, {"h", 80}, {"f", 80}, {"experts", 4}, {"k", 2}}, 2, DType::bf16);
  const Machine machine = default_machine(2);
  bool is_any_refused = false;
  for (const Preset& preset : presets()) {
    const OperatorSchedule schedule = schedule_of(preset, op, machine, 1);
    SCOPED_TRACE(to_string(schedule));
    const auto reasons = legal(op, schedule, machine);
    if (!reasons.empty()) {
      is_any_refused |= std::any_of(reasons.begin(), reasons.end(), [](const std::string& why) {
        return why.find("ids that several layers of experts go by: take ids of each") !=
               std::string::npos;
      });
      continue;
    }
    const Plan plan = lower(op, schedule, machine);
    EXPECT_TRUE(check(plan).clean());
    EXPECT_EQ(emulate(plan).first_wrong, "");
  }
  EXPECT_TRUE(is_any_refused);
}

TEST(LayersOfTheSameIds, AreCountedOnce) {
  const auto graph = parse_graph(
      "graph counted t h experts k\n"
      "input x [t, h] rows\ninput ids [t, k] rows i32\ninput weights [t, k] rows fp32\n"
      "d = permute x ids experts=experts\nn = count ids experts=experts\n"
      "m = count ids experts=experts\ny = weigh d ids weights\n"
      "output n rows\noutput m rows\noutput y rows\n");
  const Operator op =
      make_graph(graph, {{"t", 5}, {"h", 80}, {"experts", 4}, {"k", 2}}, 2, DType::bf16);
  const Machine machine = default_machine(2);
  const OperatorSchedule schedule = schedule_of(find_preset("low-latency"), op, machine, 1);
  const std::vector<std::string> reasons = legal(op, schedule, machine);
  ASSERT_FALSE(reasons.empty());
  EXPECT_NE(reasons.front().find("ids that are counted twice: take one count of them"),
            std::string::npos)
      << reasons.front();
}

}  // namespace
}  // namespace stretto

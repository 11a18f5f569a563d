// How results of integers are judged: exactly, or by a bound where something is rounded.
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "op/graph_text.h"
#include "stretto/emulate.h"
#include "stretto/lower.h"

namespace stretto {
namespace {

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

}  // namespace
}  // namespace stretto

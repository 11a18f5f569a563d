// Operators that choose experts themselves: executed under every preset against their reference,
// and proved.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "lost_syncs.h"
#include "small_plans.h"
#include "stretto/error.h"
#include "stretto/reference.h"
#include "stretto/simulate.h"

namespace stretto {
namespace {

constexpr int kSms = 10;

// With few tokens some ranks have none, and the last one has fewer experts.
Operator router_of(std::string_view name, int ranks, int64_t tokens) {
  const bool has_groups = name.ends_with("groups");
  const int64_t fewer = ranks > 1 && tokens < 10 && !has_groups ? 1 : 0;
  const int64_t experts = has_groups                   ? 4 * ranks
                          : name.starts_with("moe-ep") ? 3 * ranks - fewer
                                                       : 7;
  Sizes sizes = {{"t", tokens}, {"h", 40}, {"f", 8 * ranks}, {"experts", experts}, {"k", 2}};
  if (has_groups) sizes.insert(sizes.end(), {{"groups", 2 * ranks}, {"best", ranks}});
  return make_operator(name, sizes, ranks);
}

class RouterRanks : public testing::TestWithParam<int> {};

TEST_P(RouterRanks, OperatorsAreProvedAndRight) {
  const int ranks = GetParam();
  const Machine machine = small_machine(ranks, kSms);
  for (const char* name : {"moe-ep-router", "moe-ep-router-groups", "moe-tp-router"}) {
    for (const int64_t tokens : {29, 9, 3}) {
      const Operator op = router_of(name, ranks, tokens);
      const auto reference = make_shared_reference();
      const std::vector<OperatorSchedule> schedules = small_presets(op, machine);
      EXPECT_GE(schedules.size(), ranks == 1 ? 1u : 3u);
      for (const OperatorSchedule& schedule : schedules) {
        SCOPED_TRACE(to_string(op) + " " + to_string(schedule));
        const Plan plan = lower(op, schedule, machine);
        expect_proved(plan);
        EXPECT_GT(simulate(plan, machine).total_us, 0);
        for (const Fill fill : {Fill::random, Fill::integers}) {
          expect_right(plan, {.fill = fill, .reference = reference});
          expect_right(plan, {.seed = 2, .data_seed = 5, .fill = fill});
          if (HasFailure()) return;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, RouterRanks, testing::Values(1, 2, 3, 5, 8),
                         [](const auto& test) { return std::to_string(test.param); });

// What is chosen and how it is weighed, as the caller gets it.
Operator router_alone(std::string_view stages, int64_t tokens, int64_t experts, int64_t k,
                      int ranks) {
  const auto graph = parse_graph(
      "graph router t h experts k\ninput x [t, h] rows\ninput wr [experts, h] whole\n"
      "input b [1, experts] whole fp32\ns = gemm x wr\n" +
      std::string(stages) + "\noutput ids rows\noutput w rows\n");
  return make_graph(graph, {{"t", tokens}, {"h", 64}, {"experts", experts}, {"k", k}}, ranks,
                    DType::bf16);
}

// A layer whose caller also gets what it chose, as those who train it need it: what ranks send one
// another is then the caller's.
TEST_P(RouterRanks, LayersHandOverWhatTheyChose) {
  const int ranks = GetParam();
  const Machine machine = small_machine(ranks, kSms);
  for (const char* name : {"moe-ep-router-groups", "moe-tp-router"}) {
    for (const int64_t tokens : {29, 3}) {
      const Operator shipped = router_of(name, ranks, tokens);
      const auto graph =
          parse_graph("graph chosen" + print(*shipped.text).substr(6 + std::strlen(name)) +
                      "output ids rows\noutput weights rows\n");
      const Operator op = make_graph(graph, shipped.sizes, ranks, DType::bf16);
      for (const OperatorSchedule& schedule : small_presets(op, machine)) {
        SCOPED_TRACE(to_string(op) + " " + to_string(schedule));
        const Plan plan = lower(op, schedule, machine);
        expect_proved(plan);
        for (const Fill fill : {Fill::random, Fill::integers}) expect_right(plan, {.fill = fill});
        if (HasFailure()) return;
      }
    }
  }
}

constexpr const char* kRouters[] = {
    "ids = biased_top_k s b k=k\nw = softmax_gate s ids normalise=0",
    "ids = biased_top_k s b k=k groups=experts best=k\nw = sigmoid_gate s ids",
    "ids = biased_top_k s b k=k\nw = sigmoid_gate s ids normalise=0 scale=0.5",
};

TEST(RouterAlone, HandsOverWhatItChose) {
  for (const int ranks : {1, 3}) {
    const Machine machine = small_machine(ranks, kSms);
    for (const char* router : kRouters) {
      for (const auto& [tokens, experts, k] :
           {std::tuple{61, 24, 5}, std::tuple{7, 8, 8}, std::tuple{4, 1, 1}, std::tuple{1, 9, 2}}) {
        const Operator op = router_alone(router, tokens, experts, k, ranks);
        const Plan plan = lower(op, small_presets(op, machine).back(), machine);
        expect_proved(plan);
        for (const Fill fill : {Fill::random, Fill::integers}) {
          for (uint64_t seed = 1; seed < 6; ++seed) {
            SCOPED_TRACE(to_string(op) + " " + router);
            expect_right(plan, {.data_seed = seed, .fill = fill});
          }
        }
      }
    }
  }
}

// A caller that has chosen experts asks for their weights alone.
TEST(RouterAlone, WeighsExpertsThatTheCallerChose) {
  for (const char* type : {"i32", "i64"}) {
    for (const char* gate : {"softmax_gate s ids", "softmax_gate s ids normalise=0",
                             "sigmoid_gate s ids scale=2.5", "sigmoid_gate s ids normalise=0"}) {
      const auto graph =
          parse_graph(fmt::format("graph gate t h experts k\ninput x [t, h] rows\n"
                                  "input wr [experts, h] whole\ninput ids [t, k] rows {}\n"
                                  "s = gemm x wr\nw = {}\noutput w rows\n",
                                  type, gate));
      const Operator op =
          make_graph(graph, {{"t", 19}, {"h", 16}, {"experts", 9}, {"k", 3}}, 3, DType::bf16);
      const Machine machine = small_machine(3, kSms);
      const Plan plan = lower(op, small_presets(op, machine).back(), machine);
      expect_proved(plan);
      for (const RoutingKind routing : {RoutingKind::uniform, RoutingKind::adversarial}) {
        for (const Fill fill : {Fill::random, Fill::integers}) {
          expect_right(plan, {.fill = fill, .routing = {routing}});
        }
      }
      EXPECT_EQ(why_not_routing_of(*parse_routing("0 1\n", "r"), op),
                "ids has 19 rows of 3 experts, and the file 1 of 2");
    }
  }
}

// As in gpt-oss: the bias is added to scores in registers, or by a kernel behind a library's, and
// nothing is rounded before the choice.
TEST(RouterAlone, HasScoresWithABiasInFp32) {
  const auto graph = parse_graph(
      "graph router t h experts k\ninput x [t, h] rows\ninput wr [experts, h] whole\n"
      "input b [1, experts] whole\ns = gemm x wr\nc = bias s b\nids = top_k c k=k\n"
      "w = softmax_gate c ids\noutput ids rows\noutput w rows\n");
  const Operator op =
      make_graph(graph, {{"t", 61}, {"h", 64}, {"experts", 32}, {"k", 4}}, 2, DType::bf16);
  EXPECT_EQ(op.tensor(*op.find_tensor("c")).dtype, DType::fp32);
  const Machine machine = small_machine(2, kSms);
  for (const OperatorSchedule& schedule : small_presets(op, machine)) {
    const Plan plan = lower(op, schedule, machine);
    SCOPED_TRACE(plan.schedule);
    EXPECT_EQ(plan.buffers[*plan.find_buffer("s")].dtype, DType::fp32);
    EXPECT_EQ(plan.buffers[*plan.find_buffer("c")].dtype, DType::fp32);
    expect_proved(plan);
    for (const Fill fill : {Fill::random, Fill::integers}) expect_right(plan, {.fill = fill});
  }
  // Nothing adds a bias behind a library's product beside tables.
  const OperatorSchedule library = parse_schedules("sequential,gemm=library", op, machine);
  EXPECT_THAT(legal(op, library, machine),
              testing::Contains(testing::HasSubstr("gemm=library with bias behind the product")));
}

// Integers are chosen exactly, and hardly a row of others leaves a choice.
TEST(RouterAlone, IsHeldToTheReferenceInNearlyEveryRow) {
  for (const char* router : {"ids = top_k s k=k\nw = softmax_gate s ids",
                             "ids = top_k s k=k groups=8 best=2\nw = sigmoid_gate s ids"}) {
    const auto graph = parse_graph(
        "graph router t h experts k\ninput x [t, h] rows\ninput wr [experts, h] whole\n"
        "s = gemm x wr\n" +
        std::string(router) + "\noutput ids rows\noutput w rows\n");
    const Operator op =
        make_graph(graph, {{"t", 500}, {"h", 64}, {"experts", 32}, {"k", 4}}, 2, DType::bf16);
    for (const Fill fill : {Fill::random, Fill::integers}) {
      const auto outputs = expected_outputs(op, {.fill = fill}, {}, 0, 500);
      int64_t unsure = 0;
      for (int64_t row = 0; row < 500; ++row) unsure += std::isinf(outputs[0].bound(row, 0));
      EXPECT_LE(unsure, fill == Fill::integers ? 0 : 5);
    }
  }
}

TEST(RouterMutants, LostWaitsAndNotifiesAreReported) {
  const Machine machine = small_machine(2, kSms);
  const Operator op =
      make_operator("moe-ep-router", {{"t", 4}, {"h", 16}, {"f", 16}, {"experts", 2}, {"k", 1}}, 2);
  for (const OperatorSchedule& schedule : small_presets(op, machine)) {
    if (schedule.products.back().mover != Mover::comm_blocks) continue;
    expect_every_sync_is_needed(lower(op, schedule, machine));
    return;
  }
}

// Who chooses by another token's scores is wrong, and so is who weighs by them.
TEST(RouterMutants, OtherRowsOfScoresGiveWrongResults) {
  const Machine machine = small_machine(1, kSms);
  const Operator op = make_operator("moe-ep-router",
                                    {{"t", 20}, {"h", 16}, {"f", 32}, {"experts", 4}, {"k", 2}}, 1);
  const Plan plan = lower(op, small_presets(op, machine)[0], machine);
  for (const Opcode kind : {Opcode::top_k, Opcode::softmax_gate}) {
    Plan mutant = plan;
    for (const Lane& lane : plan.lanes) {
      for (const Instr& instr : lane.instrs) {
        Region& scores = mutant.operands[instr.first_operand];
        if (instr.op != kind || scores.row0 == 0) continue;
        scores.row0 -= 1;
        scores.row1 -= 1;
      }
    }
    ASSERT_NE(print(mutant), print(plan));
    EXPECT_FALSE(emulate(mutant, {}).verified) << to_string(kind);
  }
}

TEST(RouterRefusals, SayWhatWouldBeRight) {
  const auto refused = [](int64_t experts, int64_t k, int64_t groups, int64_t best) {
    const Sizes sizes = {{"t", 8},           {"h", 64}, {"f", 64},     {"experts", experts},
                         {"groups", groups}, {"k", k},  {"best", best}};
    try {
      make_operator("moe-ep-router-groups", sizes, 2);
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(refused(16, 4, 4, 2), "accepted");
  EXPECT_THAT(refused(16, 9, 4, 2),
              testing::HasSubstr("each row of s chooses 9 of 8 experts: take at most 8"));
  EXPECT_THAT(refused(16, 2, 5, 2),
              testing::HasSubstr("16 columns of s are no 5 groups of as many: take a divisor"));
  EXPECT_THAT(refused(16, 2, 4, 5), testing::HasSubstr("best is 5 of 4 groups: take at most 4"));
  EXPECT_THAT(refused(64, 2, 64, 5), testing::HasSubstr("groups is 64: take at most 32"));
  const auto text = [](const std::string& stage) {
    try {
      parse_graph("graph g t h e\ninput x [t, h] rows\ninput w [e, h] whole\ns = gemm x w\n" +
                  stage + "\noutput y rows\n");
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(text("y = top_k s k=2"), "accepted");
  EXPECT_EQ(text("y = top_k s"), "graph:5:11: top_k needs k=, how many experts a row chooses");
  EXPECT_EQ(text("y = top_k s k=2 scale=1"),
            "graph:5:17: top_k has no attribute 'scale'; it has k, groups and best");
  EXPECT_EQ(text("y = softmax_gate s s normalise=2"), "graph:5:32: expected 0 or 1, found '2'");
  EXPECT_EQ(text("y = softmax_gate s s scale=0"),
            "graph:5:28: expected a number above 0 and up to 1e9, found '0'");
  EXPECT_EQ(text("y = softmax_gate s s scale=1e-46"),
            "graph:5:28: expected a number above 0 and up to 1e9, found '1e-46'");
  const auto scores = parse_graph(
      "graph g t h e\ninput x [t, h] rows\ninput w [e, h] whole\ns = gemm x w\n"
      "y = sigmoid_gate s s\noutput y rows\n",
      "g");
  EXPECT_THROW(make_graph(scores, {{"t", 4}, {"h", 8}, {"e", 4}}, 1, DType::bf16), UsageError);
  const auto chosen = parse_graph(
      "graph g t h e\ninput x [t, h] rows\ninput w [e, h] whole\ninput ids [t, 5] rows i32\n"
      "s = gemm x w\ny = sigmoid_gate s ids\noutput y rows\n",
      "g");
  try {
    make_graph(chosen, {{"t", 4}, {"h", 8}, {"e", 4}}, 1, DType::bf16);
    ADD_FAILURE() << "accepted";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("each row of ids chooses 5 of 4 experts"));
  }
  const Operator op =
      make_operator("moe-ep-router", {{"t", 2}, {"h", 16}, {"f", 16}, {"experts", 4}, {"k", 2}}, 2);
  EXPECT_EQ(why_not_routing_of(*parse_routing("0 1\n0 1\n", "r"), op),
            "moe-ep-router chooses experts itself, by its scores");
}

}  // namespace
}  // namespace stretto

// Products of experts whose rows nobody adds up, as in the first half of a layer: tokens and their
// ids come by ids, and no weights with them.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <string>

#include "op/graph_text.h"
#include "routed_plans.h"

namespace stretto {
namespace {

OperatorSchedule by_ids(const Operator& op, const Machine& machine, int split = 1) {
  return schedule_of(find_preset("low-latency"), op, machine, split);
}

Operator own_graph(const std::string& lines, const Sizes& sizes, int ranks) {
  return make_graph(parse_graph("graph own t h f experts k\n" + lines), sizes, ranks, DType::bf16);
}

// What a plan's collectives are, and that they bring ids ahead of rows, and no weights.
void expect_ids_and_rows(const Plan& plan, CollectiveKind kind) {
  int collectives = 0;
  for (const Lane& lane : plan.lanes) {
    for (const Instr& instr : lane.instrs) {
      if (instr.op != Opcode::collective) continue;
      ++collectives;
      EXPECT_EQ(instr.collective, kind);
      EXPECT_EQ(plan.reads(instr).size(), 2u);
      ASSERT_EQ(plan.writes(instr).size(), 2u);
      EXPECT_EQ(plan.buffers[plan.writes(instr)[0].buffer].dtype, DType::i32);
    }
  }
  EXPECT_EQ(collectives % plan.ranks(), 0);
  EXPECT_GT(collectives, 0);
}

void expect_served(const Operator& op, CollectiveKind kind) {
  SCOPED_TRACE(to_string(op));
  const Machine machine = small_machine(op.ranks, kSms);
  const OperatorSchedule schedule = by_ids(op, machine);
  ASSERT_THAT(legal(op, schedule, machine), testing::IsEmpty());
  const Plan plan = lower(op, schedule, machine);
  EXPECT_EQ(print(parse_plan(print(plan))), print(plan));
  expect_proved(plan);
  expect_ids_and_rows(plan, kind);
  for (const RoutingKind routing : kRoutings) {
    expect_right(plan, {.seed = 3, .routing = {routing, {}}});
    if (testing::Test::HasFailure()) return;
  }
}

class UpByIds : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, UpByIds, testing::Values(2, 3, 4, 8),
                         [](const auto& test) { return std::to_string(test.param); });

// Ragged blocks, ranks without a token, as many tokens as experts, and up to all experts chosen.
TEST_P(UpByIds, AreRightForAnyTokensAndChoices) {
  const int ranks = GetParam();
  for (const std::string name : {"moe-tp-up", "moe-tp-up-i64"}) {
    for (const int64_t tokens : {1, 2, 8, 37}) {
      for (const int64_t k : {1, 3, 4, 5, 8}) {
        const Sizes sizes = {{"t", tokens}, {"h", 40}, {"f", 8 * ranks}, {"experts", 8}, {"k", k}};
        expect_served(make_operator(name, sizes, ranks), CollectiveKind::dispatch_all);
        if (HasFailure()) return;
      }
    }
  }
}

// Whatever follows the products, and whoever has the experts.
TEST_P(UpByIds, AreRightInGraphsOfOnesOwn) {
  const int ranks = GetParam();
  const std::string tokens = "input x [t, h] rows\n", ids = "input ids [t, k] rows i32\n";
  const std::string shared = "input w [experts, f, h] rows\n", g = "g = grouped x w ids\n";
  const Sizes sizes = {{"t", 29}, {"h", 40}, {"f", 8 * ranks}, {"experts", 7}, {"k", 3}};
  for (const std::string& lines :
       {tokens + ids + shared + g + "output g cols\n",
        tokens + ids + shared + g + "a = silu g\noutput a cols\n",
        tokens + ids + shared + "input b [1, f] cols\n" + g + "a = bias g b\noutput a cols\n",
        tokens + shared + "input r [experts, h] whole\ns = gemm x r\nids = top_k s k=k\n" + g +
            "a = gelu g\noutput a cols\n",
        tokens + ids + shared + "input jds [t, k] rows i32\ninput v [experts, f, h] rows\n" + g +
            "a = silu g\nc = grouped x v jds\nb = gelu c\noutput a cols\noutput b cols\n"}) {
    expect_served(own_graph(lines, sizes, ranks), CollectiveKind::dispatch_all);
  }
  Sizes dealt = sizes;
  for (auto& [name, size] : dealt) size = name == "experts" ? 3 * ranks - 1 : size;
  for (const std::string more :
       {"output a routed\n", "output a routed\nn = count ids experts=experts\noutput n rows\n",
        "input v [experts, h, f] experts\nd = grouped a v ids\noutput d routed\n"}) {
    const std::string lines =
        tokens + ids + "input w [experts, f, h] experts\n" + g + "a = silu g\n" + more;
    expect_served(own_graph(lines, dealt, ranks), CollectiveKind::dispatch);
  }
}

// Who has all tokens and ids needs none; the rest is refused, by what would be right.
TEST(UpByIdsOfOwnGraphs, AreServedOrRefusedByHowTokensAndIdsAreHeld) {
  constexpr int kRanks = 2;
  const Machine machine = small_machine(kRanks, kSms);
  const Sizes sizes = {{"t", 9}, {"h", 40}, {"f", 32}, {"experts", 4}, {"k", 2}};
  const auto reasons = [&](const std::string& x, const std::string& ids, const std::string& more) {
    const std::string lines = "input x [t, h] " + x + "\ninput ids [t, k] " + ids +
                              " i32\ninput w [experts, f, h] rows\na = grouped x w ids\n" + more;
    const Operator op = own_graph(lines, sizes, kRanks);
    const OperatorSchedule schedule = by_ids(op, machine);
    const std::vector<std::string> found = legal(op, schedule, machine);
    if (found.empty()) expect_right(lower(op, schedule, machine), {});
    return found.empty() ? "" : found.front();
  };
  const std::string whole = "output a cols\n";
  EXPECT_EQ(reasons("rows", "rows", whole), "");
  EXPECT_EQ(reasons("whole", "whole", whole), "");
  EXPECT_THAT(reasons("rows", "whole", whole),
              testing::HasSubstr("ids that each rank has all of, beside its own tokens: take both "
                                 "held by rows"));
  EXPECT_THAT(reasons("whole", "rows", whole),
              testing::HasSubstr("ids of own tokens, beside all tokens: take ids that are held "
                                 "whole, or"));
  EXPECT_THAT(reasons("rows", "rows",
                      "input v [experts, f, h] rows\nc = grouped x v ids\nb = silu c\n"
                      "output a cols\noutput b cols\n"),
              testing::HasSubstr("ids that several layers of experts go by"));
}

// A part is a stripe of each rank's tokens, whose choices lie apart in what the caller gets.
TEST(UpByIdsOfOwnGraphs, AreRefusedInParts) {
  const Operator op = make_operator("moe-tp-up", sizes_of("moe-tp-up", 2, 29), 2);
  const Machine machine = small_machine(2, kSms);
  EXPECT_THAT(legal(op, by_ids(op, machine, 2), machine),
              testing::Contains(testing::HasSubstr(
                  "collectives=low-latency with parts of rows, of which a has all: take split=1")));
}

// Rows of the same ids that are only moved, and added up, are another product's.
TEST(UpByIdsOfOwnGraphs, StandBesideSumsOfTheSameIds) {
  const Operator op = own_graph(
      "input x [t, h] rows\ninput ids [t, k] rows i32\ninput weights [t, k] rows fp32\n"
      "input w [experts, f, h] rows\ng = grouped x w ids\na = silu g\n"
      "p = permute x ids experts=experts\ny = weigh p ids weights\noutput a cols\noutput y rows\n",
      {{"t", 29}, {"h", 80}, {"f", 96}, {"experts", 6}, {"k", 3}}, 3);
  const Machine machine = small_machine(3, kSms);
  for (const char* text : {"low-latency", "a:low-latency/y:tiles,tile=16x16,comm-sms=2",
                           "a:library,mover=copy-engine/y:low-latency",
                           "a:low-latency,tile=16x16,gemm=tiles/"
                           "y:tiles,tile=16x16,comm-sms=2,granularity=whole"}) {
    SCOPED_TRACE(text);
    const OperatorSchedule schedule = parse_schedules(text, op, machine);
    ASSERT_THAT(legal(op, schedule, machine), testing::IsEmpty());
    const Plan plan = lower(op, schedule, machine);
    expect_proved(plan);
    for (const RoutingKind routing : kRoutings) expect_right(plan, {.routing = {routing, {}}});
  }
}

// Sums that go back in another way bring their weights themselves, of whatever type and whoever has
// them.
TEST(UpByIdsOfOwnGraphs, StandBesideSumsThatBringTheirOwnWeights) {
  const Machine machine = small_machine(2, kSms);
  for (const std::string weights : {"rows", "whole", "whole fp32"}) {
    const Operator op = own_graph(
        "input x [t, h] rows\ninput ids [t, k] rows i32\ninput weights [t, k] " + weights +
            "\ninput w [experts, f, h] rows\ninput v [experts, h, f] cols\ng = grouped x w ids\n"
            "a = silu g\nd = grouped a v ids\ny = weigh d ids weights\noutput y rows\n",
        {{"t", 28}, {"h", 80}, {"f", 96}, {"experts", 6}, {"k", 3}}, 2);
    for (const char* first : {"a:low-latency,tile=16x16", "a:low-latency,gemm=tiles,tile=16x16"}) {
      const std::string text =
          std::string(first) + "/y:tiles,tile=16x16,comm-sms=2,granularity=whole";
      SCOPED_TRACE(weights + " " + text);
      const OperatorSchedule schedule = parse_schedules(text, op, machine);
      ASSERT_THAT(legal(op, schedule, machine), testing::IsEmpty());
      const Plan plan = lower(op, schedule, machine);
      expect_proved(plan);
      for (const RoutingKind routing : kRoutings) expect_right(plan, {.routing = {routing, {}}});
    }
    EXPECT_EQ(legal(op, parse_schedules("low-latency", op, machine), machine).empty(), false);
  }
}

// Sums of teams beside it go in another way, since these collectives join all ranks.
TEST(UpByIdsOfOwnGraphs, StandBesideTeams) {
  const auto graph = parse_graph(
      "graph own t h f experts k\nteam tp 2\n"
      "input c [t, h] cols of tp\ninput o [h, h] cols of tp\ninput x [t, h] rows\n"
      "input v [1, h] whole\ninput ids [t, k] rows i32\ninput w [experts, f, h] rows\n"
      "p = gemm c o\ns = add p x\nn = norm s v\na = grouped n w ids\noutput a cols\n");
  const Sizes sizes = {{"t", 16}, {"h", 64}, {"f", 64}, {"experts", 4}, {"k", 2}};
  const Operator op = make_graph(graph, sizes, 4, DType::bf16);
  const Machine machine = small_machine(4, kSms);
  EXPECT_THAT(legal(op, by_ids(op, machine), machine),
              testing::Contains(testing::HasSubstr("beside collectives=nccl of p")));
  const OperatorSchedule beside =
      parse_schedules("tiles,tile=16x16,comm-sms=2/a:low-latency", op, machine);
  ASSERT_THAT(legal(op, beside, machine), testing::IsEmpty());
  const Plan plan = lower(op, beside, machine);
  expect_proved(plan);
  expect_ids_and_rows(plan, CollectiveKind::dispatch_all);
  for (const RoutingKind routing : kRoutings) expect_right(plan, {.routing = {routing, {}}});
}

}  // namespace
}  // namespace stretto

// Rows where their experts are: what a caller takes and gives with a row for each choice, and how
// many rows each expert has.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <memory>

#include "routed_plans.h"
#include "schedule/row_parts.h"
#include "stretto/error.h"

namespace stretto {
namespace {

TEST(ChoiceRows, AreRefusedByWhatSaysWhoCanTakeThem) {
  const auto refused = [](std::string_view lines) {
    const std::string text =
        "graph own t h experts k\ninput x [t, h] rows\n"
        "input d [t*k, h] routed\ninput ids [t, k] whole i32\n"
        "input w [t, k] whole fp32\ninput wg [experts, h, h] experts\n"
        "used = grouped d wg ids\noutput used routed\n"
        "own = permute x ids experts=experts\ny = weigh own ids w\n"
        "output y rows\n" +
        std::string(lines);
    try {
      make_graph(parse_graph(text), {{"t", 8}, {"h", 64}, {"experts", 4}, {"k", 2}}, 2,
                 DType::bf16);
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  struct Case {
    const char *lines, *says;
  };
  for (const Case& c : {
           Case{"", "accepted"},
           Case{"g = grouped x wg ids\noutput g rows\n",
                "output g has a row for each choice, where its expert is: output it as routed, or "
                "weigh it"},
           Case{"p = permute x ids experts=4\nz = weigh p ids w\noutput z routed\n",
                "output z has no row for each choice: output it otherwise than routed"},
           Case{"g = gelu d\noutput g routed\n",
                "d has a row for each choice: permute or grouped can take it, and gelu cannot"},
           Case{"n = count ids experts=experts\noutput n rows\n", "accepted"},
           Case{"n = count ids experts=3\noutput n rows\n",
                "n counts what permute, or grouped of experts that are dealt to ranks, puts in "
                "order by ids and 3 experts, and nothing does"},
           Case{"n = count ids experts=4\nq = slice_ids n experts=4 slices=2\noutput q rows\n",
                "n is counted for the caller alone: output it as rows"},
           Case{"input s [t, 4] whole\nc = top_k s k=2\nn = count c experts=4\noutput n rows\n",
                "n counts choices that the caller gives, and c is made by a stage"},
           Case{"n = count x experts=64\noutput n rows\n",
                "x says which matrices are meant: give it as i32 or i64"},
           Case{"n = count ids\noutput n rows\n", "count needs experts=, how many there are"},
           Case{"p = permute x ids\noutput p routed\n", "permute needs experts=, how many"},
           Case{"p = permute d ids experts=4\nq = permute p ids experts=4\noutput q routed\n",
                "p lies in the order of its experts already"},
           Case{
               "p = permute x ids experts=4\nq = gelu p\noutput q routed\n",
               "p lies in the order of its experts: weigh, or grouped by the same ids can take it, "
               "and gelu cannot"},
           Case{"input e [t, h] routed\np = permute e ids experts=4\noutput p routed\n",
                "X has a row for each choice of IDS: e [8, 64] and ids [8, 2]"},
           Case{"input e [t, h] routed\ng = grouped e wg ids\noutput g routed\n",
                "X has a row for each row of IDS, or for each of its choices: e [8, 64] and ids"},
           Case{"input s [experts, h, h] routed\ng = grouped d s ids\noutput g routed\n",
                "s is a stack of matrices, which is dealt as experts"},
       }) {
    EXPECT_THAT(refused(c.lines), testing::HasSubstr(c.says)) << c.lines;
  }
}

// What other code makes of dispatched rows is made of such by a graph, too: with a row for each
// choice on either side, or rows that are put in order before they are multiplied.
TEST(ChoiceRows, AreTakenAndLeftWhereTheirExpertsAre) {
  constexpr std::string_view kLayer =
      "graph experts t h f experts k\n"
      "input d [t*k, h] routed\ninput ids [t, k] whole i32\n"
      "input wg [experts, f, h] experts\ninput wd [experts, h, f] experts\n"
      "g = grouped d wg ids\na = gelu g\ny = grouped a wd ids\noutput y routed\n";
  constexpr std::string_view kOrdered =
      "graph ordered t h f experts k\n"
      "input x [t, h] rows\ninput ids [t, k] rows i32\ninput weights [t, k] rows fp32\n"
      "input wg [experts, h, h] experts\n"
      "d = permute x ids experts=experts\ng = grouped d wg ids\ny = weigh g ids weights\n"
      "output y rows\n";
  for (const std::string_view text : {kLayer, kOrdered}) {
    const auto graph = parse_graph(text);
    for (const int ranks : {1, 3}) {
      const Machine machine = small_machine(ranks, kSms);
      const Operator op = make_graph(
          graph, {{"t", 29}, {"h", 40}, {"f", 24}, {"experts", 8}, {"k", 3}}, ranks, DType::bf16);
      for (const char* schedule :
           {"sequential,tile=8x16", "tiles,tile=8x16,comm-sms=3,granularity=whole",
            "slices,tile=8x16,comm-sms=3,granularity=chunk"}) {
        if (ranks == 1 && schedule != std::string_view("sequential,tile=8x16")) continue;
        const Plan plan = lower(op, parse_schedules(schedule, op, machine), machine);
        expect_proved(plan);
        for (const RoutingKind routing : kRoutings) {
          expect_right(plan, {.routing = {routing, {}}});
          expect_right(plan, {.fill = Fill::integers, .routing = {routing, {}}});
          if (HasFailure()) return;
        }
      }
    }
  }
}

// Other tokens' rows in the place of those that are a rank's are found out.
TEST(ChoiceRows, AreJudgedByWhoHasTheExpert) {
  const Operator op = make_operator("dispatch", sizes_of("dispatch", 2, 29), 2);
  const Machine machine = small_machine(2, kSms);
  Plan plan = lower(op, small_presets(op, machine).back(), machine);
  int changed = 0;
  for (Lane& lane : plan.lanes) {
    for (Instr& instr : lane.instrs) {
      if (instr.op != Opcode::permute) continue;
      instr.set_count(0, instr.count(0) + 1);  // a row of another token's
      ++changed;
    }
  }
  ASSERT_GT(changed, 0);
  const EmulateResult result = emulate(plan, {});
  EXPECT_FALSE(result.verified);
  EXPECT_THAT(result.first_wrong, testing::HasSubstr(" d["));
}

// Counts are of all rows, and are expected with the first ones.
TEST(ChoiceCounts, AreThoseOfAllChoices) {
  const Operator op = make_operator("dispatch", {{"t", 4}, {"h", 8}, {"experts", 3}, {"k", 2}}, 1);
  const auto table = std::make_shared<RoutingTable>();
  table->top_k = 2;
  table->ids = {0, 2, 2, 2, -1, 7, 0, -5};
  const InputData data{Fill::integers, 1, {RoutingKind::uniform, table}};
  EXPECT_EQ(rows_to_expect(op), 4);
  const std::vector<ExpectedRows> first = expected_outputs(op, data, {}, 0, 2);
  ASSERT_EQ(first.size(), 2u);
  EXPECT_THAT(first[1].values, testing::ElementsAre(2, 0, 3));
  EXPECT_EQ(first[1].row1, 3);
  EXPECT_TRUE(expected_outputs(op, data, {}, 2, 4)[1].values.empty());
  const Plan plan =
      lower(op, schedules_of(op, small_machine(1, kSms)).front(), small_machine(1, kSms));
  expect_right(plan, {.routing = data.routing});
}

// What is counted may be put in order for a layer of the same plan, whose tiles wait for none of
// it.
TEST(ChoiceCounts, AreOfLayersToo) {
  const auto graph = parse_graph(
      "graph counted t h f experts k\ninput x [t, h] rows\ninput ids [t, k] rows i32\n"
      "input weights [t, k] rows fp32\ninput w1 [experts, f, h] experts\n"
      "input w2 [experts, h, f] experts\nn = count ids experts=experts\ng = grouped x w1 ids\n"
      "a = gelu g\nd = grouped a w2 ids\ny = weigh d ids weights\noutput n rows\noutput y rows\n");
  for (const int ranks : {1, 3}) {
    const Machine machine = small_machine(ranks, kSms);
    const Operator op = make_graph(
        graph, {{"t", 29}, {"h", 40}, {"f", 24}, {"experts", 8}, {"k", 3}}, ranks, DType::bf16);
    EXPECT_EQ(why_no_split(op, 2),
              "split=2 of a count that hands over all rows as n: take split=1");
    for (const OperatorSchedule& schedule : schedules_of(op, machine)) {
      SCOPED_TRACE(to_string(schedule));
      const Plan plan = lower(op, schedule, machine);
      expect_proved(plan);
      for (const RoutingKind routing : kRoutings) expect_right(plan, {.routing = {routing, {}}});
    }
  }
}

// Where each token has one choice, rows by choice are as many as tokens, and no rank has those of
// others' experts: nobody sends them as if they were its tokens.
TEST(ChoiceRows, AreNoTokensWithOneChoiceEach) {
  const auto normed = parse_graph(
      "graph normed t h experts k\ninput d [t*k, h] routed\ninput ids [t, k] whole i32\n"
      "input weights [t, k] rows fp32\ninput r [t, h] rows\ninput nw [1, h] whole\n"
      "p = permute d ids experts=experts\ny = weigh p ids weights\ns = add y r\n"
      "o = norm s nw\noutput o rows\noutput s rows\n");
  for (const int ranks : {2, 3}) {
    const std::vector<std::pair<std::string, int64_t>> sizes{
        {"t", 29}, {"h", 40}, {"experts", 7}, {"k", 1}};
    for (const Operator& op :
         {make_operator("combine", sizes, ranks), make_graph(normed, sizes, ranks, DType::bf16)}) {
      const Machine machine = small_machine(ranks, kSms);
      int by_ids = 0;
      for (const Preset& preset : presets()) {
        const OperatorSchedule schedule = schedule_of(preset, op, machine);
        if (!legal(op, schedule, machine).empty()) continue;
        SCOPED_TRACE(to_string(op) + " " + to_string(schedule));
        const Plan plan = lower(op, schedule, machine);
        by_ids += plan.low_latency_collectives;
        expect_proved(plan);
        for (const RoutingKind routing : kRoutings) expect_right(plan, {.routing = {routing, {}}});
      }
      EXPECT_GT(by_ids, 0) << to_string(op);
    }
  }
}

// Who has them has nothing to send.
TEST(ChoiceRows, AreNotDispatchedByTheirIds) {
  const auto graph = parse_graph(
      "graph ordered t h experts k\ninput d [t*k, h] routed\ninput ids [t, k] whole i32\n"
      "p = permute d ids experts=experts\noutput p routed\n");
  for (const int64_t k : {1, 2}) {
    const Operator op =
        make_graph(graph, {{"t", 8}, {"h", 64}, {"experts", 4}, {"k", k}}, 2, DType::bf16);
    const Machine machine = default_machine(2);
    EXPECT_THAT(
        legal(op, schedule_of(find_preset("low-latency"), op, machine), machine),
        testing::ElementsAre(testing::HasSubstr(
            "collectives=low-latency with rows by choice that nobody adds up: take a sum")));
    EXPECT_TRUE(legal(op, schedule_of(find_preset("tiles"), op, machine), machine).empty());
  }
}

// With one choice a row, rows of choices and rows of tokens are as many: of the first those of no
// expert are undefined, of sums they are zeros.
TEST(ChoiceRows, MayBeOfNoExpertWithOneChoiceEach) {
  for (const char* name : {"moe-tp-up", "moe-tp"}) {
    Sizes sizes = sizes_of(name, 2, 29);
    for (auto& [size, value] : sizes) value = size == "k" ? 1 : value;
    const Operator op = make_operator(name, sizes, 2);
    const Machine machine = small_machine(2, kSms);
    EmulateOptions options;
    options.routing.kind = RoutingKind::adversarial;
    for (const OperatorSchedule& schedule : schedules_of(op, machine)) {
      expect_right(lower(op, schedule, machine), options);
    }
  }
}

}  // namespace
}  // namespace stretto

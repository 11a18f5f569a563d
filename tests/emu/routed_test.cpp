// Operators whose rows choose experts: executed under every preset and routing against their
// reference, and proved, once for all routings.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <set>

#include "lost_syncs.h"
#include "schedule/row_parts.h"
#include "small_plans.h"
#include "stretto/error.h"
#include "stretto/simulate.h"

namespace stretto {
namespace {

constexpr int kSms = 10;
constexpr RoutingKind kRoutings[] = {RoutingKind::uniform, RoutingKind::zipf, RoutingKind::one_hot,
                                     RoutingKind::adversarial};

bool only_moves(std::string_view name) { return name.starts_with("dispatch") || name == "combine"; }

// Blocks of tokens are short, some ranks have none, and with few of them the last rank has an
// expert less.
Sizes sizes_of(std::string_view name, int ranks, int64_t tokens) {
  const int64_t fewer = ranks > 1 && tokens < 10 ? 1 : 0;
  const bool are_dealt = name.starts_with("moe-ep") || only_moves(name);
  const int64_t experts = are_dealt ? 3 * ranks - fewer : 7;
  Sizes sizes = {{"t", tokens}, {"h", 40}, {"experts", experts}, {"k", 3}};
  if (!only_moves(name)) sizes.emplace_back("f", 8 * ranks);
  if (name == "moe-ep-shared") sizes.emplace_back("s", 24);
  return sizes;
}

// Both partitions, and tiles of all heights, whatever the preset takes.
std::vector<OperatorSchedule> schedules_of(const Operator& op, const Machine& machine) {
  std::vector<OperatorSchedule> all;
  for (OperatorSchedule schedule : small_presets(op, machine)) {
    all.push_back(schedule);
    if (schedule.products[0].mover != Mover::comm_blocks || op.ranks == 1) continue;
    for (Schedule& product : schedule.products) {
      product.granularity =
          product.granularity == Granularity::whole ? Granularity::chunk : Granularity::whole;
      product.tile_m = 16;
      product.reuse = Reuse::ack;
    }
    EXPECT_THAT(legal(op, schedule, machine), testing::IsEmpty());
    all.push_back(schedule);
  }
  for (size_t i = 0, count = all.size(); i < count; ++i) {
    OperatorSchedule passes = all[i];
    size_t product = 0;
    for (const OperatorSegment& segment : op.segments) {
      if (!segment.product) continue;
      Schedule& one = passes.products[product++];
      if (segment.product->is_routed()) one.permute = Permute::pass;
    }
    if (!(passes == all[i])) all.push_back(std::move(passes));
  }
  return all;
}

class RoutedRanks : public testing::TestWithParam<int> {};

TEST_P(RoutedRanks, OperatorsAreProvedAndRightUnderEveryRouting) {
  const int ranks = GetParam();
  const Machine machine = small_machine(ranks, kSms);
  for (const char* name : {"moe-tp", "moe-ep", "moe-ep-shared", "moe-tp-up", "moe-tp-down",
                           "moe-tp-down-ar", "dispatch", "combine", "dispatch-combine"}) {
    for (const int64_t tokens : {29, 9, 3, 1}) {
      if (only_moves(name) && tokens % 3 == 0) continue;  // what layers do with few tokens
      const Operator op = make_operator(name, sizes_of(name, ranks, tokens), ranks);
      const auto reference = make_shared_reference();
      const std::vector<OperatorSchedule> schedules = schedules_of(op, machine);
      EXPECT_GE(schedules.size(), ranks == 1 ? 1u : 3u);
      for (const OperatorSchedule& schedule : schedules) {
        SCOPED_TRACE(to_string(op) + " " + to_string(schedule));
        const Plan plan = lower(op, schedule, machine);
        expect_proved(plan);
        EXPECT_GT(simulate(plan, machine).total_us, 0);
        for (const RoutingKind routing : kRoutings) {
          expect_right(plan, {.routing = {routing, {}}, .reference = reference});
          if (HasFailure()) return;
        }
        expect_right(plan, {.seed = 2, .data_seed = 5, .routing = {RoutingKind::zipf, {}}});
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, RoutedRanks, testing::Values(1, 2, 3, 4, 5, 8),
                         [](const auto& test) { return std::to_string(test.param); });

// Whoever has a tile and whichever lane adds a row up, each sum has the same terms in the same
// order.
TEST(RoutedBits, AreTheSameForEveryNumberOfSms) {
  constexpr int kRanks = 3;
  for (const char* name : {"moe-tp", "moe-ep", "moe-tp-up", "moe-tp-down-ar"}) {
    const Operator op = make_operator(name, sizes_of(name, kRanks, 29), kRanks);
    const auto reference = make_shared_reference();
    for (const std::string schedule :
         {"sequential,tile=16x16,permute=load", "sequential,tile=16x16,permute=pass",
          "tiles,tile=16x16,comm-sms=2,granularity=whole,permute=load",
          "tiles,tile=16x16,comm-sms=2,granularity=chunk,permute=pass"}) {
      for (const RoutingKind routing : {RoutingKind::uniform, RoutingKind::zipf}) {
        std::set<uint64_t> bits;
        std::set<std::string> plans;
        for (const int sms : {3, 7, 10, 33}) {
          SCOPED_TRACE(fmt::format("{} {} on {} SMs", to_string(op), schedule, sms));
          const Machine machine = small_machine(kRanks, sms);
          const Plan plan = lower(op, parse_schedules(schedule, op, machine), machine);
          EXPECT_EQ(plan.sms, sms);
          plans.insert(print(plan));
          const EmulateOptions options{.routing = {routing, {}}, .reference = reference};
          expect_right(plan, options);
          bits.insert(emulate(plan, options).output_hash);
        }
        EXPECT_EQ(plans.size(), 4u);
        EXPECT_EQ(bits.size(), 1u) << to_string(op) << " " << schedule;
      }
    }
  }
}

// The same bits, and plans that are the same but for the caller's ids and their copies.
TEST(IdsOf64Bits, MakeTheSameBits) {
  for (const int ranks : {1, 3}) {
    const Machine machine = small_machine(ranks, kSms);
    const Sizes look_ups = {{"bags", 9}, {"tables", 5}, {"rows", 11}, {"dim", 16}, {"pool", 3}};
    for (const std::string name :
         {"moe-tp", "moe-ep", "moe-ep-shared", "moe-tp-up", "moe-ep-slices", "dispatch", "combine",
          "dispatch-combine", "embedding-a2a"}) {
      Sizes sizes = name != "embedding-a2a" ? sizes_of(name, ranks, 9) : look_ups;
      if (name == "moe-ep-slices") sizes.emplace_back("slices", 2);
      const Operator narrow = make_operator(name, sizes, ranks);
      const Operator wide = make_operator(name + "-i64", sizes, ranks);
      EXPECT_EQ(parse_operator(to_string(wide)), wide);
      EXPECT_EQ(wide.tensor(*wide.find_tensor("ids")).dtype, DType::i64);
      for (const OperatorSchedule& schedule : small_presets(narrow, machine)) {
        SCOPED_TRACE(to_string(wide) + " " + to_string(schedule));
        const Plan plan = lower(wide, schedule, machine);
        expect_proved(plan);
        EXPECT_EQ(print(parse_plan(print(plan))), print(plan));
        for (const RoutingKind routing : kRoutings) {
          const EmulateOptions options{.routing = {routing, {}}};
          expect_right(plan, options);
          EXPECT_EQ(emulate(plan, options).output_hash,
                    emulate(lower(narrow, schedule, machine), options).output_hash);
        }
      }
    }
  }
}

TEST(IdsOf64Bits, AreOfOperatorsThatTakeIds) {
  EXPECT_NE(find_graph("embedding-a2a-i64"), nullptr);
  EXPECT_EQ(find_graph("moe-ep-i64"), find_graph("moe-ep-i64"));
  for (const char* name : {"gemm-rs-i64", "moe-ep-router-i64", "-i64", "moe-ep-i64-i64"}) {
    EXPECT_EQ(find_graph(name), nullptr) << name;
  }
}

// Its products are those of a kernel ahead, and what is sent waits for none of them.
TEST(SharedExperts, AreComputedWhileTokensAreSent) {
  const Machine machine = default_machine(8);
  Sizes sizes = {{"t", 4096}, {"h", 2048}, {"f", 512}, {"experts", 64}, {"k", 8}};
  const auto us = [&](std::string_view name) {
    const Operator op = make_operator(name, sizes, 8);
    return simulate(lower(op, schedule_of(find_preset("slices"), op, machine), machine), machine);
  };
  const Simulation routed = us("moe-ep");
  sizes.emplace_back("s", 512);
  const Simulation both = us("moe-ep-shared");
  const double shared_us = both.compute_us - routed.compute_us;
  EXPECT_GT(shared_us, 5);
  EXPECT_LT(both.total_us - routed.total_us, 0.75 * shared_us);
}

// Every wait and notify of plans with one partition and with one for each source, one at a time.
TEST(RoutedMutants, LostWaitsAndNotifiesAreReported) {
  const Machine machine = small_machine(2, kSms);
  for (const char* name : {"moe-tp", "moe-ep", "dispatch"}) {
    Sizes sizes = {{"t", 6}, {"h", 16}, {"experts", 2}, {"k", 1}};
    if (!only_moves(name)) sizes.emplace_back("f", 16);
    const Operator op = make_operator(name, sizes, 2);
    for (const OperatorSchedule& schedule : schedules_of(op, machine)) {
      if (schedule.products[0].mover != Mover::comm_blocks) continue;
      expect_every_sync_is_needed(lower(op, schedule, machine));
    }
  }
}

// Two products and a weighted sum of integers, in fp32: nothing is rounded.
TEST(RoutedIntegers, AreExact) {
  const auto graph = parse_graph(
      "graph linear t h f experts k\n"
      "input x [t, h] rows\ninput ids [t, k] whole i32\ninput weights [t, k] rows fp32\n"
      "input w1 [experts, f, h] rows\ninput w2 [experts, h, f] cols\n"
      "a = grouped x w1 ids\nd = grouped a w2 ids\ny = weigh d ids weights\noutput y whole\n");
  const Operator op = make_graph(graph, {{"t", 41}, {"h", 72}, {"f", 48}, {"experts", 9}, {"k", 4}},
                                 3, DType::fp32);
  const Machine machine = small_machine(3, kSms);
  for (const OperatorSchedule& schedule : schedules_of(op, machine)) {
    const Plan plan = lower(op, schedule, machine);
    expect_proved(plan);
    for (const RoutingKind routing : kRoutings) {
      expect_right(plan, {.fill = Fill::integers, .routing = {routing, {}}});
      if (HasFailure()) return;
    }
  }
}

// Who takes other entries' experts, or another token's rows, is wrong: the reference sees it.
TEST(RoutedMutants, WrongTablesGiveWrongResults) {
  const Machine machine = small_machine(2, kSms);
  const Operator op =
      make_operator("moe-tp", {{"t", 20}, {"h", 16}, {"f", 32}, {"experts", 4}, {"k", 2}}, 2);
  const OperatorSchedule schedule = schedules_of(op, machine)[0];
  const Plan plan = lower(op, schedule, machine);
  const auto with = [&](Opcode kind, size_t operand, int32_t down) {
    Plan mutant = plan;
    for (const Lane& lane : plan.lanes) {
      for (const Instr& instr : lane.instrs) {
        if (instr.op != kind) continue;
        Region& region = mutant.operands[instr.first_operand + operand];
        if (region.row0 + down < 0) continue;
        region.row0 += down;
        region.row1 += down;
      }
    }
    return mutant;
  };
  for (const Plan& mutant : {with(Opcode::grouped_gemm, 1, -1), with(Opcode::gather_gemm, 0, -8),
                             with(Opcode::weigh, 1, -2)}) {
    ASSERT_NE(print(mutant), print(plan));
    EXPECT_FALSE(emulate(mutant, {}).verified);
  }
}

TEST(Routings, OfFilesAreWhatTheySay) {
  const Machine machine = small_machine(2, kSms);
  const Operator op =
      make_operator("moe-ep", {{"t", 3}, {"h", 16}, {"f", 16}, {"experts", 4}, {"k", 2}}, 2);
  const Plan plan = lower(op, schedule_of(find_preset("tiles"), op, machine), machine);
  const auto table = parse_routing("# three\n0 3 | 0.5 -1\n\n-1 -1 | 1 1\n2 2 | 1 2\n", "r");
  EXPECT_EQ(table->ids, (std::vector<int32_t>{0, 3, -1, -1, 2, 2}));
  expect_right(plan, {.routing = {RoutingKind::uniform, table}});
  const auto refused = [&](std::string_view text) {
    try {
      const auto other = parse_routing(text, "r");
      emulate(plan, {.routing = {RoutingKind::uniform, other}});
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(refused("0 1\n0 1\n"), "ids has 3 rows of 2 experts, and the file 2 of 2");
  EXPECT_EQ(refused("0 1 | 1 nan\n"), "r line 1: expected a weight, a finite number, found 'nan'");
  EXPECT_EQ(refused("0 x\n"), "r line 1: expected an expert's number, -1 for none, found 'x'");
  EXPECT_THAT(refused("0 1\n0\n0 1\n"), testing::HasSubstr("r line 2: expected 2 experts"));
  EXPECT_THAT(refused(""), testing::HasSubstr("expected a line of experts' numbers"));
}

TEST(RoutedRefusals, SayWhatWouldBeRight) {
  const auto refused = [](std::string_view name, int ranks, Sizes sizes) {
    try {
      make_operator(name, sizes, ranks);
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  const auto sizes = [](int64_t h, int64_t f, int64_t experts, int64_t k) {
    return Sizes{{"t", 8}, {"h", h}, {"f", f}, {"experts", experts}, {"k", k}};
  };
  EXPECT_THAT(refused("moe-tp", 2, sizes(64, 64, 8, 9)),
              testing::HasSubstr("each row of ids chooses 9 of 8 matrices: take at most 8"));
  EXPECT_EQ(refused("moe-ep", 2, sizes(64, 64, 9, 2)), "accepted");
  EXPECT_THAT(
      refused("moe-ep", 4, sizes(64, 64, 9, 2)),
      testing::HasSubstr("9 matrices of wg are dealt to 4 ranks in blocks of 3, which leaves "
                         "none for the last: take 8 or 10"));
  EXPECT_THAT(
      refused("moe-tp", 2, sizes(100, 64, 8, 2)),
      testing::HasSubstr("rows of x have 100 columns on a rank, which are no multiple of 16 "
                         "bytes: take 96 or 104"));
  const auto moved = [&](int64_t h, int64_t experts, int64_t k) {
    return refused("dispatch-combine", 4, {{"t", 8}, {"h", h}, {"experts", experts}, {"k", k}});
  };
  EXPECT_EQ(moved(64, 10, 2), "accepted");
  EXPECT_THAT(moved(64, 9, 2),
              testing::HasSubstr("9 experts are dealt to 4 ranks in blocks of 3, which leaves none "
                                 "for the last: take 8 or 10"));
  EXPECT_THAT(moved(64, 8, 9),
              testing::HasSubstr("each row of ids chooses 9 of 8 matrices: take at most 8"));
  EXPECT_THAT(
      moved(100, 8, 2),
      testing::HasSubstr("rows of x have 100 columns on a rank, which are no multiple of 16 "
                         "bytes: take 96 or 104"));
  EXPECT_THAT(refused("moe-tp", 2, sizes(64, 40, 8, 2)),
              testing::HasSubstr("have 20 columns on a rank, which are no multiple of 16 bytes: "
                                 "take 16 or 24"));
  EXPECT_EQ(refused("moe-tp", 2, sizes(64, 48, 8, 2)), "accepted");
}

TEST(RoutedRefusals, OfRowsByChoiceSayWhoCanTakeThem) {
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
TEST(Routed, RowsThatAreWhereTheirExpertsAreAreTakenAndLeft) {
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
TEST(Routed, OutputsAreJudgedByWhoHasTheExpert) {
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
TEST(Routed, CountsAreThoseOfAllChoices) {
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
TEST(Routed, LayersCountTheirRowsToo) {
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

// With one choice a row, rows of choices and rows of tokens are as many: of the first those of no
// expert are undefined, of sums they are zeros.
TEST(Routed, RowsWithOneChoiceMayBeOfNoExpert) {
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

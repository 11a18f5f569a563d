// Operators whose rows choose experts: executed under every preset and routing against their
// reference, and proved, once for all routings.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <set>

#include "lost_syncs.h"
#include "routed_plans.h"
#include "stretto/error.h"
#include "stretto/simulate.h"

namespace stretto {
namespace {

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
  for (const char* name : {"moe-tp", "moe-tp-up", "moe-ep", "dispatch"}) {
    Sizes sizes = {{"t", 6}, {"h", 16}, {"experts", 2}, {"k", 1}};
    if (!only_moves(name)) sizes.emplace_back("f", 16);
    const Operator op = make_operator(name, sizes, 2);
    for (const OperatorSchedule& schedule : schedules_of(op, machine)) {
      const Schedule& first = schedule.products[0];
      const bool by_ids = first.collectives == CollectivesBy::low_latency;
      const bool in_turn =
          first.mover == Mover::copy_engine && first.granularity == Granularity::chunk;
      if (first.mover != Mover::comm_blocks && !in_turn && !by_ids) continue;
      if (by_ids && only_moves(name)) continue;  // there are none
      const int few = in_turn || by_ids ? 3 : 10;
      expect_every_sync_is_needed(lower(op, schedule, machine), few);
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
              testing::HasSubstr("have 40 columns, 20 on a rank, which are no multiple of 16 "
                                 "bytes: take 32 or 48"));
  EXPECT_EQ(refused("moe-tp", 2, sizes(64, 48, 8, 2)), "accepted");
}

// Tokens come beside tiles, or ahead of products by NCCL or by all blocks.
TEST(RoutedRefusals, SayWhoBringsTokensAndAddsSums) {
  const Sizes sizes = {{"t", 8}, {"h", 128}, {"f", 256}, {"experts", 8}, {"k", 2}};
  const Operator op = make_operator("moe-tp-down", sizes, 2);
  const Machine machine = small_machine(2, kSms);
  const auto reasons = [&](std::string_view text) {
    return legal(op, parse_schedules(text, op, machine), machine);
  };
  for (const char* good :
       {"library,reduction=slots", "library,reduction=slots,partials=fp32",
        "library,mover=epilogue,reduction=slots", "library,mover=copy-engine,reduction=slots",
        "sequential,mover=copy-engine,reduction=slots,granularity=chunk"}) {
    EXPECT_THAT(reasons(good), testing::IsEmpty()) << good;
  }
  const std::pair<const char*, const char*> bad[] = {
      {"library,mover=epilogue", "take reduction=slots"},
      {"library,reduction=two-shot", "take reduction=slots or nccl"},
      {"library,partials=fp32", "which collectives add in their type: take partials=bf16"},
      {"sequential,mover=epilogue,reduction=slots,comm-sms=2", "all blocks send: take comm-sms=0"},
      {"sequential,mover=epilogue,reduction=slots,sync=flag", "streams order: take sync=event"},
      {"sequential,mover=epilogue,reduction=slots,granularity=chunk",
       "which all come ahead of products: take granularity=whole, or mover=comm-blocks or "
       "copy-engine"},
      {"sequential,mover=copy-engine,reduction=slots,sync=flag", "streams order: take sync=event"},
      {"library,mover=copy-engine,reduction=slots,comm-sms=2", "no block sends: take comm-sms=0"},
  };
  for (const auto& [text, why] : bad) {
    EXPECT_THAT(reasons(text), testing::ElementsAre(testing::HasSubstr(why))) << text;
  }
}

}  // namespace
}  // namespace stretto

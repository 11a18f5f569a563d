// Parts of rows that the caller has by choice, or that every rank has all of: right and of the bits
// of the whole under every routing, with a partition for each source where ranks have tokens.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <map>

#include "lost_syncs.h"
#include "own_graph.h"
#include "routed_plans.h"
#include "schedule/row_parts.h"
#include "stretto/error.h"
#include "stretto/simulate.h"

namespace stretto {
namespace {

std::vector<OperatorSchedule> split_presets(const Operator& op, const Machine& machine, int split) {
  std::vector<OperatorSchedule> all;
  for (const Preset& preset : presets()) {
    OperatorSchedule schedule = schedule_of(preset, op, machine, split);
    for (Schedule& product : schedule.products) {
      product.comm_sms = product.mover == Mover::comm_blocks ? 3 : 0;
      product.tile_m = 8;
      product.tile_n = 16;
    }
    if (legal(op, schedule, machine).empty()) all.push_back(schedule);
  }
  return all;
}

// As many schedules as are served, of 2 and 3 parts; all have the bits of the whole.
int expect_splits(const Operator& op) {
  const Machine machine = small_machine(op.ranks, kSms);
  const auto reference = make_shared_reference();
  std::map<RoutingKind, uint64_t> whole;
  int served = 0;
  for (const int split : {1, 2, 3}) {
    std::vector<OperatorSchedule> schedules = split_presets(op, machine, split);
    for (const char* text :
         {"sequential,mover=copy-engine,granularity=chunk,reduction=slots",
          "sequential,reduction=slots", "sequential,mover=epilogue",
          "sequential,mover=epilogue,reduction=slots",
          "sequential,mover=copy-engine,granularity=chunk", "tiles,permute=pass,comm-sms=2"}) {
      try {
        schedules.push_back(
            parse_schedules(fmt::format("split={}/{},tile=8x16", split, text), op, machine));
      } catch (const UsageError&) {
        continue;  // a coordinate that these products do not have
      }
    }
    for (const OperatorSchedule& schedule : schedules) {
      SCOPED_TRACE(to_string(op) + " " + to_string(schedule));
      if (!legal(op, schedule, machine).empty()) continue;
      const Plan plan = lower(op, schedule, machine);
      expect_proved(plan);
      EXPECT_GT(simulate(plan, machine).total_us, 0);
      for (const RoutingKind routing : kRoutings) {
        const EmulateResult result =
            emulate(plan, {.seed = 3, .routing = {routing, {}}, .runs = 2, .reference = reference});
        EXPECT_TRUE(result.finished && result.verified && result.faults.empty())
            << result.first_wrong;
        if (is_deterministic(schedule)) {
          EXPECT_EQ(result.output_hash,
                    whole.try_emplace(routing, result.output_hash).first->second);
        }
        if (testing::Test::HasFailure()) return served;
      }
      served += split > 1;
    }
  }
  return served;
}

class ChoiceSplits : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, ChoiceSplits, testing::Values(1, 2, 3, 4, 8),
                         [](const auto& test) { return std::to_string(test.param); });

// Ragged rows, and parts of which some ranks have none.
TEST_P(ChoiceSplits, OfShippedOperatorsAreRightAndHaveTheBitsOfTheWhole) {
  const int ranks = GetParam();
  for (const char* name : {"moe-tp-up", "moe-tp-down", "moe-tp-down-ar"}) {
    for (const int64_t tokens : {int64_t{41}, int64_t{4} * ranks - ranks / 2}) {
      EXPECT_GE(expect_splits(make_operator(name, sizes_of(name, ranks, tokens), ranks)), 4);
      if (HasFailure()) return;
    }
  }
}

constexpr OwnGraph kGraphs[] = {
    {"AllIdsBesideOwnTokens",
     "input x [t, h] rows\ninput ids [t, k] whole i32\ninput weights [t, k] rows fp32\n"
     "input w1 [experts, f, h] rows\ninput w2 [experts, h, f] cols\n"
     "a = grouped x w1 ids\nd = grouped a w2 ids\ny = weigh d ids weights\noutput y rows\n"},
    {"RowsThatAreLeftAndGoneOnWith",
     "input x [t, h] rows\ninput ids [t, k] rows i32\ninput weights [t, k] rows fp32\n"
     "input w1 [experts, f, h] rows\ninput w2 [experts, h, f] cols\n"
     "a = grouped x w1 ids\nd = grouped a w2 ids\ny = weigh d ids weights\n"
     "output a cols\noutput y rows\n"},
    {"WhatEveryRankHasAllOf",
     "input x [t, h] whole\ninput ids [t, k] whole i32\n"
     "input w1 [experts, f, h] rows\na = grouped x w1 ids\noutput a cols\n"},
    {"RowsWhereTheirExpertsAre",
     "input d [t*k, h] routed\ninput ids [t, k] whole i32\ninput weights [t, k] whole fp32\n"
     "input w1 [experts, f, h] experts\ninput w2 [experts, h, f] experts\n"
     "a = grouped d w1 ids\nb = silu a\nc = grouped b w2 ids\ny = weigh c ids weights\n"
     "output y rows\n"},
    {"RowsInOrderForTheCaller",
     "input x [t, h] rows\ninput ids [t, k] whole i32\n"
     "d = permute x ids experts=experts\noutput d routed\n"},
};

class ChoiceSplitsOfOwnGraphs : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, ChoiceSplitsOfOwnGraphs, testing::Values(1, 2, 3, 4),
                         [](const auto& test) { return std::to_string(test.param); });

TEST_P(ChoiceSplitsOfOwnGraphs, AreRightAndHaveTheBitsOfTheWhole) {
  const int ranks = GetParam();
  for (const OwnGraph& own : kGraphs) {
    SCOPED_TRACE(own.name);
    const auto graph = parse_graph(std::string("graph own t h f experts k\n") + own.lines);
    for (const int64_t k : {1, 2}) {  // with one choice each, rows by choice are as many as tokens
      const std::string_view name = own.name;
      Sizes sizes = {{"t", 41}, {"h", 40}, {"f", 8 * ranks}, {"experts", 3 * ranks}, {"k", k}};
      if (name == "RowsInOrderForTheCaller") {
        const auto moved = parse_graph(std::string("graph own t h experts k\n") + own.lines);
        std::erase_if(sizes, [](const auto& size) { return size.first == "f"; });
        EXPECT_GE(expect_splits(make_graph(moved, sizes, ranks, DType::bf16)), 2);
      } else {
        EXPECT_GE(expect_splits(make_graph(graph, sizes, ranks, DType::bf16)), 2);
      }
      if (HasFailure()) return;
    }
  }
}

// Every wait and notify of two parts, one at a time.
TEST(ChoiceSplitMutants, LostWaitsAndNotifiesAreReported) {
  const Machine machine = small_machine(2, kSms);
  for (const std::string name : {"moe-tp-up", "moe-tp-down"}) {
    const Operator op =
        make_operator(name, {{"t", 6}, {"h", 16}, {"f", 16}, {"experts", 2}, {"k", 1}}, 2);
    const OperatorSchedule schedule = split_presets(op, machine, 2).back();
    ASSERT_EQ(schedule.products[0].mover, Mover::comm_blocks);
    expect_every_sync_is_needed(lower(op, schedule, machine));
  }
}

// What the caller gets is one tensor, in whose partition each part has blocks of its own.
TEST(ChoiceSplits, HaveAPlaceInOnePartition) {
  const Machine machine = small_machine(2, kSms);
  const Operator op = make_operator("moe-tp-up", sizes_of("moe-tp-up", 2, 20), 2);
  const Plan plan = lower(op, schedule_of(find_preset("tiles"), op, machine, 2), machine);
  ASSERT_EQ(plan.partitions.size(), 1u);
  EXPECT_EQ(plan.partitions[0].blocks, 4);
  const Operator down = make_operator("moe-tp-down", sizes_of("moe-tp-down", 2, 20), 2);
  EXPECT_EQ(
      lower(down, schedule_of(find_preset("tiles"), down, machine, 2), machine).partitions.size(),
      2u);
}

TEST(ChoiceSplitRefusals, SayWhatWouldBeRight) {
  const Machine machine = small_machine(2, kSms);
  const auto refused = [&](const char* name, const std::string& text) {
    const Operator op = make_operator(name, sizes_of(name, 2, 20), 2);
    const auto reasons = legal(op, parse_schedules(text, op, machine), machine);
    return reasons.empty() ? std::string("accepted") : reasons.front();
  };
  for (const char* text :
       {"split=2/tiles", "split=2/sequential", "split=3/sequential,mover=epilogue"}) {
    EXPECT_EQ(refused("moe-tp-up", text), "accepted");
  }
  EXPECT_EQ(refused("moe-tp-up", "split=2/sequential,granularity=whole"),
            "a: granularity=whole with parts of rows, of which a has all, and a part has some of "
            "each rank's: take granularity=chunk or split=1");
  // Nothing lies apart, so sources need no partitions of their own.
  for (const char* text :
       {"sequential,granularity=chunk", "split=2/sequential,granularity=chunk"}) {
    EXPECT_THAT(refused("moe-tp-down-ar", text),
                testing::StartsWith("y: granularity=chunk and mover=nccl with rows that choose"));
  }
  EXPECT_THAT(refused("moe-tp-down", "split=2/tiles,granularity=whole"),
              testing::StartsWith("y: granularity=whole with parts of rows, of which a has all"));
  EXPECT_EQ(refused("moe-tp-down-ar", "split=2/sequential"), "accepted");
  EXPECT_EQ(why_no_split(make_operator("moe-tp-up", sizes_of("moe-tp-up", 2, 6), 2), 4),
            "split=4 of 3 rows that a rank owns: take split=3 or less");
  const Operator combine = make_operator("combine", sizes_of("combine", 2, 20), 2);
  EXPECT_EQ(why_no_split(combine, 2),
            "split=2 of d, which the caller has by choice and nobody multiplies: there is nothing "
            "to hide a part behind, take split=1");
  const Operator dispatch = make_operator("dispatch", sizes_of("dispatch", 2, 20), 2);
  EXPECT_EQ(why_no_split(dispatch, 2),
            "split=2 of a count that hands over all rows as counts: take split=1");
}

}  // namespace
}  // namespace stretto

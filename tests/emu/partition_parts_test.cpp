// Partitions of many choices are made in parts by many lanes: proved, right under every routing,
// and with bad ids counted once.
#include <gmock/gmock.h>

#include <algorithm>
#include <memory>

#include "small_plans.h"
#include "stretto/reference.h"

namespace stretto {
namespace {

constexpr int64_t kTopK = 8;

Operator of_tokens(std::string_view name, int64_t tokens, int ranks, int64_t width = 8) {
  return make_operator(
      name, {{"t", tokens}, {"h", width}, {"f", width * ranks}, {"experts", 11}, {"k", kTopK}},
      ranks);
}

int64_t number_of(const Plan& plan, Opcode op) {
  int64_t number = 0;
  for (const Lane& lane : plan.lanes) {
    number += std::count_if(lane.instrs.begin(), lane.instrs.end(),
                            [&](const Instr& instr) { return instr.op == op; });
  }
  return number;
}

Plan plan_of(const Operator& op, std::string_view schedule) {
  const Machine machine = small_machine(op.ranks);
  return lower(op, parse_schedules(schedule, op, machine), machine);
}

TEST(PartitionParts, AreOfManyChoicesOnly) {
  const Plan few = plan_of(of_tokens("moe-tp", 2047, 1), "sequential,tile=64x16");
  EXPECT_EQ(number_of(few, Opcode::route), 1);
  EXPECT_EQ(number_of(few, Opcode::fill_entries), 0);
  const Plan many = plan_of(of_tokens("moe-tp", 2048, 2), "tiles,tile=64x16,granularity=whole");
  EXPECT_EQ(number_of(many, Opcode::route), 0);
  for (const Opcode op : {Opcode::count_choices, Opcode::place_choices, Opcode::fill_entries}) {
    EXPECT_EQ(number_of(many, op), 2 * 8);
  }
  // A source has half of the tokens.
  const Plan sources = plan_of(of_tokens("moe-tp", 2048, 2), "tiles,tile=64x16,granularity=chunk");
  EXPECT_EQ(number_of(sources, Opcode::route), 2 * 2);
  const Plan most = plan_of(of_tokens("moe-tp", 20000, 2), "tiles,tile=128x16,granularity=whole");
  EXPECT_EQ(number_of(most, Opcode::count_choices), 2 * 32);
  // Between kernels a partition has one of its own.
  const Plan alone = plan_of(of_tokens("moe-tp", 20000, 1), "sequential,tile=128x16");
  EXPECT_EQ(number_of(alone, Opcode::route), 1);
}

TEST(PartitionParts, AreProvedAndRightUnderEveryRouting) {
  for (const int ranks : {1, 2, 3}) {
    for (const char* name : {"moe-tp", "moe-ep", "moe-tp-up"}) {
      const Operator op = of_tokens(name, 2101, ranks);
      const auto reference = make_shared_reference();
      for (const char* schedule : {"sequential,tile=64x16", "tiles,tile=32x16,granularity=whole",
                                   "tiles,tile=64x16,granularity=whole,permute=pass,reuse=ack"}) {
        SCOPED_TRACE(to_string(op) + " " + schedule);
        const Plan plan = plan_of(op, schedule);
        const bool has_kernel = number_of(plan, Opcode::route) > 0;
        EXPECT_NE(has_kernel, number_of(plan, Opcode::fill_entries) > 0);
        if (ranks > 1) EXPECT_EQ(has_kernel, std::string_view(schedule).starts_with("sequential"));
        expect_proved(plan);
        for (const RoutingKind routing :
             {RoutingKind::uniform, RoutingKind::one_hot, RoutingKind::adversarial}) {
          expect_right(plan, {.routing = {routing, {}}, .reference = reference});
          if (HasFailure()) return;
        }
      }
    }
  }
}

// The kernel of experts goes by all of the tables at once.
TEST(PartitionParts, ServeWholeProducts) {
  for (const char* name : {"moe-tp", "moe-ep", "moe-tp-up"}) {
    const Plan plan = plan_of(of_tokens(name, 2101, 1, 72), "library,tile=64x64");
    EXPECT_EQ(number_of(plan, Opcode::route), 1);
    expect_proved(plan);
    expect_right(plan, {.routing = {RoutingKind::zipf, {}}});
  }
}

TEST(PartitionParts, CountBadIdsOnce) {
  const Operator op = of_tokens("moe-ep", 2101, 2);
  const auto table = std::make_shared<RoutingTable>();
  table->top_k = kTopK;
  for (int64_t at = 0; at < 2101 * kTopK; ++at) table->ids.push_back(at % 12 - 1);
  table->ids.front() = 11;
  table->ids[4000] = -2;
  table->ids.back() = 1 << 30;
  const EmulateResult result = emulate(plan_of(op, "tiles,tile=64x16,granularity=whole"),
                                       {.routing = {.table = table}, .runs = 2});
  EXPECT_TRUE(result.finished && result.faults.empty() && result.verified) << result.first_wrong;
  EXPECT_EQ(result.bad_ids, 3);
}

}  // namespace
}  // namespace stretto

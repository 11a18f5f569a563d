// Numbers that name no expert, or no row of a table: each is counted once, whoever plans.
#include <gtest/gtest.h>

#include <memory>

#include "small_plans.h"
#include "stretto/reference.h"

namespace stretto {
namespace {

// 0, 1, ... in turn and -1, but for three, one of which is below -1.
Routing with_bad(const Operator& op, int rows, int top_k, int names) {
  const auto table = std::make_shared<RoutingTable>();
  table->top_k = top_k;
  for (int at = 0; at < rows * top_k; ++at) table->ids.push_back(at % (names + 1) - 1);
  table->ids.front() = names;
  table->ids[static_cast<size_t>(top_k)] = -2;
  table->ids.back() = 1 << 30;
  EXPECT_EQ(why_not_routing_of(*table, op), "");
  return {.table = table};
}

int64_t counted(const Operator& op, const char* schedule, const Routing& routing) {
  const Machine machine = small_machine(op.ranks, 6);
  const Plan plan = lower(op, parse_schedules(schedule, op, machine), machine);
  const EmulateResult result = emulate(plan, {.routing = routing, .runs = 3});
  EXPECT_TRUE(result.finished && result.faults.empty() && result.verified) << result.first_wrong;
  return result.bad_ids;
}

TEST(BadIds, OfLookUpsAreThoseOfAllTables) {
  for (const int ranks : {1, 2, 3}) {
    const Operator op =
        make_operator("embedding-a2a",
                      {{"bags", 21}, {"tables", 5}, {"rows", 9}, {"dim", 8}, {"pool", 3}}, ranks);
    for (const char* schedule : {"tiles", "sequential", "decomposed", "slices,tile=8x8"}) {
      if (ranks == 1 && schedule == std::string_view("decomposed")) continue;
      SCOPED_TRACE(to_string(op) + " " + schedule);
      EXPECT_EQ(counted(op, schedule, with_bad(op, 21, 15, 9)), 3);
      EXPECT_EQ(counted(op, schedule, {RoutingKind::uniform, {}}), 0);
    }
  }
}

TEST(BadIds, OfExpertsAreOnceOfEachToken) {
  for (const char* name : {"moe-ep", "moe-tp"}) {
    for (const int ranks : {1, 2}) {
      const Operator op =
          make_operator(name, {{"t", 22}, {"h", 16}, {"f", 32}, {"experts", 6}, {"k", 2}}, ranks);
      for (const char* schedule : {"tiles", "sequential", "tiles,granularity=chunk"}) {
        SCOPED_TRACE(to_string(op) + " " + schedule);
        EXPECT_EQ(counted(op, schedule, with_bad(op, 22, 2, 6)), 3);
        EXPECT_EQ(counted(op, schedule, {RoutingKind::uniform, {}}), 0);
      }
    }
  }
}

// Partitions count what ids bring, also where these come alone.
TEST(BadIds, ThatCameWithRowsAreCountedByPartitions) {
  for (const int ranks : {2, 3, 8}) {
    for (const char* name : {"moe-tp-up", "moe-tp", "moe-ep"}) {
      const Operator op = make_operator(
          name, {{"t", 22}, {"h", 16}, {"f", 16 * ranks}, {"experts", 8}, {"k", 2}}, ranks);
      SCOPED_TRACE(to_string(op));
      EXPECT_EQ(counted(op, "low-latency", with_bad(op, 22, 2, 8)), 3);
      EXPECT_EQ(counted(op, "low-latency", {RoutingKind::uniform, {}}), 0);
    }
  }
}

}  // namespace
}  // namespace stretto

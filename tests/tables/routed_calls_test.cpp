// What a dispatch's kernel is told of the partition that it makes too: places, numbers, memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "launch/joined_partitions.h"
#include "launch/plan_fixture.h"
#include "stretto/device/partition_by_blocks.h"
#include "stretto/lower.h"
#include "tables/collective_parts.h"
#include "tables/kernel_set.h"
#include "tables/low_latency_shape.h"

namespace stretto::cuda {
namespace {

using testing::HasSubstr;

Plan plan_of(int tokens) {
  const Operator op = parse_operator("moe-ep t=" + std::to_string(tokens) +
                                     " h=80 f=96 experts=16 k=8 ranks=2 dtype=bf16");
  const Machine machine = default_machine(op.ranks);
  return lower(op, parse_schedules("low-latency", op, machine), machine);
}

const Instr& instr_at(const Plan& plan, const InstrRef& at) {
  return plan.lanes[at.lane].instrs[at.pos];
}

TEST(RoutedCalls, NameTheTablesOfTheirRank) {
  const Plan plan = plan_of(64);
  const BufferPlaces places = places_of(plan);
  for (int rank = 0; rank < 2; ++rank) {
    const auto joined = joined_partitions(plan, rank);
    ASSERT_EQ(joined.size(), 1u);
    const Instr& route = instr_at(plan, joined.begin()->second);
    const LowLatencyCall::Routed call = routed_call(plan, route, places, 0);
    EXPECT_EQ(call.first_expert, rank * 8);
    EXPECT_EQ(call.experts, 8);
    const std::span<const Region> to = plan.writes(route);
    EXPECT_EQ(call.entries, to[1].rows());
    EXPECT_EQ(call.entries * call.entry_rows, to[0].rows());
    const DevicePtr tables[] = {call.choices, call.experts_of_entries, call.rows, call.counts};
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(to[i].rank, rank);
      EXPECT_EQ(tables[i], address_of(plan, places, {to[i].buffer, to[i].rank, 0, 1}, 0));
    }
  }
}

// More choices are more blocks', which then need less memory each than one would.
TEST(RoutedCalls, HaveBlocksAndMemoryForTheirChoices) {
  const auto shape_of = [](int tokens, int sms) {
    const Plan plan = plan_of(tokens);
    const auto [id, at] = *joined_partitions(plan, 0).begin();
    LowLatencyCall call = low_latency_sizes(plan, collective_of(plan, 0, id));
    EXPECT_EQ(call.routed.entry_rows, 0);
    EXPECT_THAT(low_latency_shape(call, 2, sms).kernel.kernel, HasSubstr("send_chosen_rows<"));
    call.routed = routed_sizes(plan, instr_at(plan, at));
    return low_latency_shape(call, 2, sms);
  };
  const LowLatencyShape few = shape_of(64, 132), many = shape_of(2048, 132),
                        on_one = shape_of(2048, 2);
  for (const LowLatencyShape& shape : {few, many, on_one}) {
    EXPECT_EQ(shape.kernel.header, "kernels/send_and_route.h");
    EXPECT_THAT(shape.kernel.kernel, HasSubstr("send_and_route<Bf16x8"));
    EXPECT_LE(shape.shared_bytes, device::kPartitionSharedBytes);
  }
  EXPECT_EQ(few.route_blocks, 1);
  EXPECT_EQ(many.route_blocks, 8);
  EXPECT_EQ(on_one.route_blocks, 1);
  EXPECT_GT(on_one.shared_bytes, 4 * many.shared_bytes);
}

TEST(RoutedCalls, AreCompiledAhead) {
  std::string names;
  for (const KernelEntry& kernel : kernels_of(plan_of(64), "sm_90a", false)) {
    names += kernel.name + '\n';
  }
  EXPECT_THAT(names, HasSubstr("collective send_and_route<Bf16x8"));
  EXPECT_THAT(names, testing::Not(HasSubstr("\npartition\n")));
}

}  // namespace
}  // namespace stretto::cuda

// Tiles whose K a lane computes in ranges, one behind the other: one task of the kernel each.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <string>

#include "phases_fixture.h"
#include "tables/plan_limits.h"

namespace stretto::cuda {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

// What stands in a gather's plan of two ranks whose foreign tile is computed in four ranges of 128.
struct Text {
  std::string between;  // behind the second range
  std::string before_sum;
  std::string elsewhere;  // in a lane of its own
  std::string ranges =
      "ranges[0:128,0:64] ranges[128:256,0:64] ranges[256:384,0:64] "
      "ranges[384:512,0:64]";
  int own_ranges = 4;  // the others are left by `elsewhere`
};

std::string range(int i, int begin, int end) {
  return fmt::format(
      "  wait ag.{0} >= 1\n"
      "  gemm #1 ag[128:256,{1}:{2}] b[0:64,{1}:{2}] -> ranges[{3}:{4},0:64]\n",
      i, begin, end, i * 128, i * 128 + 128);
}

Plan gather(const Text& text) {
  std::string ranges;
  for (int i = 0; i < text.own_ranges; ++i) {
    ranges += range(i, i * 128, i * 128 + 128);
    if (i == 1) ranges += text.between;
  }
  return parse_plan(fmt::format(R"(stretto-plan 1
operator ag-gemm m=256 n=128 k=512 ranks=2 dtype=bf16
sms 132
buffer a bf16 128x512 input sharded=256
buffer b bf16 64x512 input
buffer out bf16 256x64 output
buffer ag bf16 256x512 symmetric copies=2
buffer ranges fp32 512x64 local
buffer copied fp32 512x64 local
signals ag 4 copies=2
signals done 4
lane 0 compute 0
  gemm #0 a[0:128,0:512] b[0:64,0:512] -> out[0:128,0:64]
{}{}  reduce #1 {} -> out[128:256,0:64]
  notify done.0@1 += 1
{}end
)",
                                ranges, text.before_sum, text.ranges, text.elsewhere));
}

TEST(Phases, RangesOfALaneAreOneTaskThatAwaitsThemOneByOne) {
  const Plan plan = gather({});
  EXPECT_THAT(why_not_on_cuda(plan), IsEmpty());
  const Tables tables(plan);
  EXPECT_TRUE(tables.all.gemms.front().config.phases);
  EXPECT_FALSE(tables.all.gemms.front().config.splits);
  EXPECT_EQ(tables.all.gemms.front().config.output, device::OutputType::bf16);
  EXPECT_TRUE(tables.programs[0].moves.empty());
  const GemmTable& table = tables.gemm();
  ASSERT_EQ(table.blocks.size(), 1u);
  ASSERT_EQ(table.blocks[0].size(), 2u);
  EXPECT_TRUE(table.splits.empty());
  const device::GemmTask& own = table.blocks[0][0];
  EXPECT_EQ(own.num_waits, 0);
  EXPECT_EQ(own.num_k, 8);
  const device::GemmTask& task = table.blocks[0][1];
  EXPECT_EQ(task.tile, 1u);
  EXPECT_EQ(task.first_k, 0);
  EXPECT_EQ(task.num_k, 8);
  ASSERT_EQ(task.num_waits, 4);
  EXPECT_EQ(task.num_late_waits, 0);
  EXPECT_THAT(blocks_before(table, task, 0, 4), testing::ElementsAre(0, 2, 4, 6));
  ASSERT_EQ(task.num_notifies, 1);
  EXPECT_EQ(table.notifies[task.first_notify].rank, 1);
  ASSERT_EQ(task.num_destinations, 1);
  const device::GemmDestination& to = table.destinations[task.first_destination];
  EXPECT_EQ(tables.all.gemms[0].maps[to.map].matrix.address,
            places_of(plan)[0][*plan.find_buffer("out")][0]);
  EXPECT_EQ(to.row, 128);
}

TEST(Phases, SumsInRegistersNeedNoMemory) {
  const Plan plan = gather({});
  const TileSums sums(plan);
  EXPECT_TRUE(sums.needs_no_memory(*plan.find_buffer("ranges")));
  EXPECT_FALSE(sums.needs_no_memory(*plan.find_buffer("ag")));
  EXPECT_EQ(sums.last_of(0, 2), 8u);
  EXPECT_EQ(sums.last_of(0, 0), 0u);
}

TEST(Phases, WhatTheSumAwaitsIsAwaitedBeforeTheLastRange) {
  Text text;
  text.before_sum = "  wait done.1 >= 1\n";
  const Plan plan = gather(text);
  EXPECT_THAT(why_not_on_cuda(plan), IsEmpty());
  const Tables tables(plan);
  const device::GemmTask& task = tables.gemm().blocks[0][1];
  ASSERT_EQ(task.num_waits, 5);
  EXPECT_EQ(task.num_late_waits, 0);
  EXPECT_THAT(blocks_before(tables.gemm(), task, 0, 5), testing::ElementsAre(0, 2, 4, 6, 6));
}

TEST(Phases, RangesOfOtherLanesAreAddedToThoseOfThisOne) {
  Text text;
  text.own_ranges = 2;
  text.elsewhere = "lane 0 compute 1\n" + range(2, 256, 384) + "  notify done.1@0 += 1\n" +
                   range(3, 384, 512) + "  notify done.1@0 += 1\n";
  text.before_sum = "  wait done.1 >= 2\n";
  const Plan plan = gather(text);
  EXPECT_THAT(why_not_on_cuda(plan), IsEmpty());
  EXPECT_FALSE(TileSums(plan).needs_no_memory(*plan.find_buffer("ranges")));
  const Tables tables(plan);
  EXPECT_TRUE(tables.all.gemms.front().config.phases);
  EXPECT_TRUE(tables.all.gemms.front().config.splits);
  const GemmTable& table = tables.gemm();
  ASSERT_EQ(table.blocks.size(), 2u);
  const uint64_t sums = places_of(plan)[0][*plan.find_buffer("ranges")][0];
  constexpr uint64_t kRange = 128 * 64 * 4;
  const device::GemmTask& task = table.blocks[0][1];
  EXPECT_EQ(task.num_k, 4);
  ASSERT_EQ(task.num_waits, 2);
  EXPECT_THAT(blocks_before(table, task, 0, 2), testing::ElementsAre(0, 2));
  EXPECT_EQ(task.num_late_waits, 1);
  // Where the second range's sums would be, two more follow.
  EXPECT_EQ(table.splits[0][0].ranges, 0u);
  EXPECT_EQ(table.splits[0][1].ranges, 3u);
  EXPECT_EQ(table.splits[0][1].sums, sums + kRange);
  EXPECT_EQ(table.splits[0][1].step * uint64_t{16}, kRange);
  ASSERT_EQ(table.blocks[1].size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(table.blocks[1][i].num_k, 2);
    EXPECT_EQ(table.blocks[1][i].num_destinations, 0);
    EXPECT_EQ(table.splits[1][i].ranges, 1u);
    EXPECT_EQ(table.splits[1][i].sums, sums + (2 + i) * kRange);
  }
}

TEST(Phases, NotifiesBetweenRangesComeBehindTheTile) {
  Text text;
  text.between = "  notify done.2@1 += 1\n";
  text.elsewhere =
      "lane 1 comm 0\n  wait done.2 >= 1 lag 1\n  copy #0 a[0:128,0:64] -> ag@0[128:256,0:64]\n";
  const Plan plan = gather(text);
  EXPECT_THAT(why_not_on_cuda(plan), IsEmpty());
  const Tables tables(plan);
  const device::GemmTask& task = tables.gemm().blocks[0][1];
  ASSERT_EQ(task.num_notifies, 2);
  EXPECT_EQ(task.num_waits, 4);
  EXPECT_EQ(tables.gemm().notifies[task.first_notify].signal, tables.signals.index_of({1, 2}));
  EXPECT_EQ(tables.gemm().notifies[task.first_notify + 1].signal, tables.signals.index_of({1, 0}));
}

TEST(Phases, WhatCannotStayInRegistersIsRefused) {
  const auto why = [](const Text& text) {
    const auto reasons = why_not_on_cuda(gather(text));
    return reasons.empty() ? std::string() : reasons.front();
  };
  // Somebody awaits in this run that the second range has been computed.
  Text text;
  text.between = "  notify done.2@1 += 1\n";
  text.elsewhere =
      "lane 1 comm 0\n  wait done.2 >= 1\n  copy #0 a[0:128,0:64] -> ag@0[128:256,0:64]\n";
  EXPECT_THAT(why(text), HasSubstr("where a lane computes several ranges"));
  text = {};
  text.before_sum = "  notify done.2@1 += 1\n";
  text.elsewhere =
      "lane 1 comm 0\n  wait done.2 >= 1\n  copy #0 a[0:128,0:64] -> ag@0[128:256,0:64]\n";
  EXPECT_THAT(why(text), HasSubstr("and before their sum"));
  // Somebody reads the second range.
  text = {};
  text.elsewhere =
      "lane 0 comm 0\n  wait done.0 >= 1\n  copy ranges[128:256,0:64] -> copied[0:128,0:64]\n";
  EXPECT_THAT(why(text), HasSubstr("nobody else reads its sums"));
  // Another tile between.
  text = {};
  text.between = "  gemm #2 a[0:128,0:512] b[0:64,0:512] -> out[0:128,0:64]\n";
  EXPECT_THAT(why(text), HasSubstr("where a lane computes several ranges"));
  text.between = "  boundary 0\n";
  EXPECT_THAT(why(text), HasSubstr("where a lane computes several ranges"));
  // The ranges are added in another order.
  text = {};
  text.ranges = "ranges[128:256,0:64] ranges[0:128,0:64] ranges[256:384,0:64] ranges[384:512,0:64]";
  EXPECT_THAT(why(text), HasSubstr("they are the first ones, in their order"));
  // Others come first.
  text = {};
  text.own_ranges = 2;
  text.ranges = "ranges[256:384,0:64] ranges[384:512,0:64] ranges[0:128,0:64] ranges[128:256,0:64]";
  EXPECT_THAT(why(text), HasSubstr("they are the first ones, in their order"));
}

TEST(Phases, TasksHaveALimitedNumberOfWaits) {
  Text text;
  for (int i = 0; i < 252; ++i) text.between += fmt::format("  wait done.3 >= {}\n", i + 1);
  EXPECT_THAT(
      why_not_on_cuda(gather(text)),
      testing::ElementsAre(HasSubstr("a tile has 256 waits, a task on the GPU at most 255")));
}

}  // namespace
}  // namespace stretto::cuda

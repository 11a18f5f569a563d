// What lanes of a plan may ask of the kernels' tables and of the GEMM kernel.
#include "tables/lane_limits.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "launch/plan_fixture.h"
#include "launch/rank_program.h"
#include "launch/tile_sums.h"
#include "tables/plan_tables.h"

namespace stretto::cuda {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(LaneLimits, TasksThatTheTablesCannotHoldAreRefused) {
  const auto reasons = [](const std::string& k, const std::string& waits) {
    return why_not_on_cuda(parse_plan(fmt::format(R"(stretto-plan 1
operator gemm-rs m=64 n=64 k={0} ranks=1 dtype=bf16
sms 132
buffer a bf16 64x{0} input
buffer b bf16 64x{0} input
buffer big bf16 70000x70000 local
buffer copied bf16 70000x70000 local
buffer out bf16 64x64 output
signals s 300
lane 0 compute 0
{1}  gemm #0 a[0:64,0:{0}] b[0:64,0:{0}] -> out[0:64,0:64]
lane 0 comm 0
  copy big[0:{2},0:70000] -> copied[0:{2},0:70000]
end
)",
                                                  k, waits, waits.empty() ? 30678 : 30679)));
  };
  std::string waits;
  for (int i = 0; i < 256; ++i) waits += fmt::format("  wait s.{} >= 1\n", i);
  EXPECT_THAT(reasons("4194240", ""), IsEmpty());
  EXPECT_THAT(reasons("4194304", waits),
              ElementsAre(testing::HasSubstr("must end at 4194240"),
                          testing::HasSubstr("at most 2147483647 elements"),
                          "a tile has 256 waits, a task on the GPU at most 255: take sync=counter, "
                          "or fewer comm-sms or k-phases"));
}

TEST(LaneLimits, LanesOfMoversMakeAnyNumberOfWaitsAndNotifies) {
  constexpr size_t kMany = 140'000;
  std::string text = fmt::format(R"(stretto-plan 1
operator ag-gemm m=128 n=64 k=128 ranks=2 dtype=bf16
sms 132
buffer a bf16 64x128 input sharded=128
buffer b bf16 32x128 input
buffer out bf16 128x32 output
buffer ag bf16 128x128 symmetric
signals s {}
lane 0 comm 0
)",
                                 kMany);
  for (size_t i = 0; i < kMany; ++i) text += fmt::format("  wait s.{} >= 1\n", i);
  text += "  copy a[0:64,0:128] -> ag@1[0:64,0:128]\n";
  for (size_t i = 0; i < kMany; ++i) text += fmt::format("  notify s.{}@1 += 1\n", i);
  const Plan plan = parse_plan(text + "end\n");
  ASSERT_THAT(why_not_on_cuda(plan), IsEmpty());
  const auto programs = programs_of(plan);
  const RankTables tables =
      tables_for(plan, 0, programs[0], places_of(plan), SignalLayout(plan, programs, true));
  ASSERT_EQ(tables.moves.size(), 1u);
  const MoverTable& table = tables.moves[0];
  size_t waits = 0, notifies = 0;
  bool copied = false;
  for (const device::MoverTask& task : table.blocks[0]) {
    // One after the other; all waits by the copy, no notify before it.
    EXPECT_TRUE(task.first_wait == waits && task.first_notify == notifies);
    waits += task.num_waits;
    copied = copied || task.num_sources == 1;
    EXPECT_EQ(copied, waits == kMany);
    EXPECT_TRUE(copied || task.num_notifies == 0);
    notifies += task.num_notifies;
  }
  EXPECT_TRUE(copied);
  EXPECT_EQ(waits, kMany);
  EXPECT_EQ(notifies, kMany);
}

TEST(LaneLimits, WavesOfManyRowsHaveAFewWaitsATask) {
  // 256 tile rows of one tile on 128 lanes: the second wave has 128 stripes of four movers.
  const auto most_waits = [](const char* sync) {
    const Plan plan = plan_of("ag-gemm m=16384 n=128 k=64 ranks=2 dtype=bf16",
                              fmt::format("tiles,tile=64x64,comm-sms=4,start=wave,sync={}", sync));
    EXPECT_THAT(why_not_on_cuda(plan), IsEmpty());
    const auto programs = programs_of(plan);
    const RankTables tables =
        tables_for(plan, 0, programs[0], places_of(plan), SignalLayout(plan, programs, true));
    EXPECT_EQ(tables.gemms.size(), 1u);
    int most = 0;
    for (const std::vector<device::GemmTask>& tasks : tables.gemms[0].table.blocks) {
      for (const device::GemmTask& task : tasks) most = std::max<int>(most, task.num_waits);
    }
    return most;
  };
  EXPECT_EQ(most_waits("flag"), 4);
  EXPECT_EQ(most_waits("counter"), 1);
}

TEST(LaneLimits, RowsThatTensorMapsCannotStepOverAreRefused) {
  for (const char* preset : {"sequential", "tiles"}) {
    EXPECT_THAT(
        why_not_on_cuda(plan_of("gemm-rs m=512 n=516 k=512 ranks=2 dtype=bf16", preset)),
        ElementsAre("rows of a matrix on the GPU are a multiple of 16 bytes apart: 516 bf16 "
                    "elements are not, take a multiple of 8"));
  }
}

// What tiles of schedules can have too many of, and what to take instead.
TEST(LaneLimits, SchedulesOfTooManyWaitsOrDestinationsAreToldWhatToTake) {
  const auto reasons = [](const char* op_text, const char* schedule) {
    const Segment op = parse_segment(op_text);
    Machine machine = default_machine(8);
    machine.ranks_per_node = op.ranks;
    return why_not_on_cuda(lower(op, parse_schedule(schedule, op, machine), machine));
  };
  constexpr const char* kGather = "ag-gemm m=2048 n=4096 k=8192 ranks=8 dtype=bf16";
  EXPECT_THAT(reasons(kGather, "tiles,comm-sms=130,k-phases=4"),
              ElementsAre(testing::HasSubstr("a tile has 512 waits, a task on the GPU at most 255: "
                                             "take sync=counter, or fewer comm-sms or k-phases")));
  EXPECT_THAT(reasons(kGather, "tiles,comm-sms=130,k-phases=4,sync=counter"), IsEmpty());
  EXPECT_THAT(reasons(kGather, "tiles,comm-sms=60,k-phases=4"), IsEmpty());

  constexpr const char* kSum = "gemm-ar m=1 n=64 k=16384 ranks=256 dtype=bf16";
  EXPECT_THAT(reasons(kSum, "tiles,reduction=one-shot"),
              ElementsAre(testing::HasSubstr("256 destinations, a task on the GPU at most 255: "
                                             "take tiles of fewer rows, fewer ranks, or "
                                             "reduction=two-shot")));
  EXPECT_THAT(reasons(kSum, "tiles"), IsEmpty());
}

// As far apart as a 32-bit number of 16 bytes says, and a row further.
TEST(LaneLimits, RangesOfKThatLieTooFarApartAreRefused) {
  const auto reasons = [](int apart) {
    return why_not_on_cuda(parse_plan(fmt::format(R"(stretto-plan 1
operator ag-gemm m=64 n=64 k=128 ranks=1 dtype=bf16
sms 132
buffer a bf16 64x128 input
buffer b bf16 64x128 input
buffer out bf16 64x64 output
buffer ranges fp32 600000x262144 local
signals s 1
lane 0 compute 0
  gemm #0 a[0:64,0:64] b[0:64,0:64] -> ranges[0:64,0:64]
  wait s.0 >= 1
  reduce #0 ranges[0:64,0:64] ranges[{0}:{1},0:64] -> out[0:64,0:64]
lane 0 compute 1
  gemm #0 a[0:64,64:128] b[0:64,64:128] -> ranges[{0}:{1},0:64]
  notify s.0@0 += 1
end
)",
                                                  apart, apart + 64)));
  };
  EXPECT_THAT(reasons(65535), IsEmpty());
  EXPECT_THAT(reasons(65536),
              ElementsAre(testing::HasSubstr("lie 68719476736 bytes apart, at most 68719476720 are "
                                             "served: take split-k=1")));
}

// The first instruction that gives a reason, so that the line of a file can be named.
TEST(LaneLimits, ReasonsNameWhoGivesThem) {
  PlanLines lines;
  const Plan plan = parse_plan(R"(stretto-plan 1
operator ag-gemm m=128 n=64 k=128 ranks=1 dtype=bf16
sms 132
buffer a bf16 128x128 input
buffer b bf16 64x128 input
buffer out bf16 128x64 output
buffer kept bf16 128x128 local
signals s 2
lane 0 compute 0
  copy a[0:64,0:128] -> kept[0:64,0:128]
  gemm #0 a[0:64,32:128] b[0:64,32:128] -> out[0:64,0:64]
lane 0 compute 1
  wait s.0 >= 1
  notify s.1@0 += 1
  gemm #1 a[64:128,32:128] b[0:64,32:128] -> out[64:128,0:64]
lane 0 copy 0
  notify s.0@0 += 1
  wait s.1 >= 1
end
)",
                               "p.txt", &lines);
  std::vector<std::string> found;
  for (const PlanLimit& limit : limits_on_cuda(plan, TileSums(plan))) {
    ASSERT_TRUE(limit.where.has_value()) << limit.reason;
    found.push_back(fmt::format("{}: {}", lines.of(*limit.where), limit.reason));
  }
  EXPECT_THAT(found, ElementsAre("11: a range of K must start at a multiple of 64, the same in A "
                                 "and B",
                                 "11: between boundaries a compute lane moves data only after its "
                                 "last tile",
                                 "14: a compute lane notifies at a boundary or after a task"));
}

}  // namespace
}  // namespace stretto::cuda

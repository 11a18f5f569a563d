// Gathers that schedules cut into phases of K: one kernel for all kinds of them.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "lower/plan_of_operator.h"
#include "phases_fixture.h"
#include "table_walk.h"
#include "tables/plan_limits.h"

namespace stretto::cuda {
namespace {

using testing::IsEmpty;

TEST(ScheduledPhases, AWholeKHasNone) {
  const Plan plan = plan_of("ag-gemm m=512 n=512 k=512 ranks=2 dtype=bf16", "tiles,comm-sms=2");
  EXPECT_FALSE(config_of(plan).phases);
  const Plan split =
      plan_of("ag-gemm m=512 n=512 k=512 ranks=2 dtype=bf16", "tiles,comm-sms=2,split-k=2");
  EXPECT_FALSE(config_of(split).phases);
  EXPECT_FALSE(TileSums(split).needs_no_memory(*split.find_buffer("ranges")));
}

TEST(ScheduledPhases, GathersInPhasesRunInOneKernel) {
  const char* op = "ag-gemm m=1000 n=1088 k=832 ranks=2 dtype=bf16";
  for (const char* schedule :
       {"tiles,tile=128x128,comm-sms=3,k-phases=4", "slices,tile=128x128,k-phases=3",
        "tiles,tile=128x128,mover=copy-engine,reuse=ack,k-phases=13"}) {
    const Plan plan = plan_of(op, schedule);
    EXPECT_THAT(why_not_on_cuda(plan), IsEmpty()) << schedule;
    EXPECT_TRUE(TileSums(plan).needs_no_memory(*plan.find_buffer("ranges"))) << schedule;
    const Tables tables(plan);
    EXPECT_TRUE(tables.all.gemms.front().config.phases) << schedule;
    EXPECT_FALSE(tables.all.gemms.front().config.splits) << schedule;
    ASSERT_EQ(tables.all.gemms.size(), 1u);
    size_t in_phases = 0, tiles = 0;
    for (const auto& block : tables.gemm().blocks) {
      for (const device::GemmTask& task : block) {
        ++tiles;
        EXPECT_EQ(task.first_k, 0);
        EXPECT_EQ(task.num_k, 13);
        EXPECT_EQ(task.num_destinations, 1);
        const std::vector<int> blocks = blocks_before(tables.gemm(), task, 0, task.num_waits);
        EXPECT_TRUE(std::is_sorted(blocks.begin(), blocks.end()));
        in_phases += !blocks.empty() && blocks.back() > 0;
        EXPECT_TRUE(blocks.empty() || (blocks.front() == 0 && blocks.back() < 13)) << schedule;
      }
    }
    EXPECT_EQ(tiles, 40u);
    EXPECT_GE(in_phases, 15u) << schedule;
  }
  // Where K is split pieces alone are cut.
  const Plan split = plan_of(op, "tiles,tile=128x128,k-phases=2,split-k=2");
  EXPECT_THAT(why_not_on_cuda(split), IsEmpty());
  EXPECT_FALSE(config_of(split).phases);
}

// One task a tile: the gate's phases, beside which the other product is multiplied.
TEST(ScheduledPhases, OfGatedProductsAreThoseOfTheTile) {
  const Plan plan = plan_of_operator("mlp m=512 h=832 f=1024 ranks=2 dtype=bf16",
                                     "up:tiles,tile=128x128,comm-sms=3,k-phases=4/down:tiles");
  EXPECT_THAT(why_not_on_cuda(plan), IsEmpty());
  EXPECT_TRUE(TileSums(plan).needs_no_memory(*plan.find_buffer("up_ranges")));
  const Tables tables(plan);
  const device::GemmConfig& config = tables.all.gemms.front().config;
  EXPECT_TRUE(config.phases && !config.splits && config.follower == device::Follower::swiglu);
  EXPECT_EQ(why_illegal(config), "");
  size_t in_phases = 0, tiles = 0;
  for (const auto& block : tables.gemm().blocks) {
    for (const device::GemmTask& task : block) {
      ++tiles;
      EXPECT_EQ(task.num_k, 13);
      const std::vector<int> blocks = blocks_before(tables.gemm(), task, 0, task.num_waits);
      EXPECT_TRUE(std::is_sorted(blocks.begin(), blocks.end()));
      in_phases += !blocks.empty() && blocks.front() == 0 && blocks.back() == 9;
    }
  }
  EXPECT_EQ(tiles, 4u * 8);
  EXPECT_EQ(in_phases, 2u * 8);
}

TEST(ScheduledPhases, TablesCanBeMadeForEveryKindOfGather) {
  for (const int ranks : {2, 4, 8}) {
    for (const auto& [sizes, schedule] : std::vector<std::pair<std::string, std::string>>{
             {"m=1000 n=1088 k=832", "tiles,tile=64x128,comm-sms=3,k-phases=13"},
             {"m=517 n=960 k=4672", "tiles,tile=128x128,mover=copy-engine,k-phases=8"},
             {"m=1024 n=4096 k=8192", "tiles,tile=128x256,comm-sms=12,k-phases=16"},
             {"m=2048 n=4096 k=1024", "tiles,tile=64x64,comm-sms=8,k-phases=2"},
             {"m=1024 n=1024 k=2048", "slices,tile=128x192,k-phases=3"},
             {"m=1024 n=1024 k=4096", "tiles,tile=128x128,comm-sms=8,k-phases=4,rows=bucket"},
             {"m=840 n=1088 k=832",
              "tiles,tile=64x128,mover=copy-engine,reuse=ack,k-phases=5,rows=bucket"}}) {
      const Plan plan =
          plan_of(fmt::format("ag-gemm {} ranks={} dtype=bf16", sizes, ranks), schedule);
      EXPECT_THAT(why_not_on_cuda(plan), IsEmpty()) << ranks << " " << schedule;
      const auto programs = programs_of(plan);
      const RankTables tables =
          tables_for(plan, 1, programs[1], places_of(plan), SignalLayout(plan, programs, true),
                     schedule.find("bucket") != std::string::npos);
      EXPECT_TRUE(tables.gemms.front().config.phases) << ranks << " " << schedule;
      EXPECT_EQ(why_illegal(tables.gemms.front().config), "");
    }
  }
}

// Whose `in` has no columns of its own, so that what is stored tells what was read where.
TEST(ScheduledPhases, OfSourcesAreMultipliedAsThePlanHasThem) {
  struct Case {
    int ranks, m, n, k;
    const char* schedule;
  };
  for (const Case& one : {Case{2, 300, 136, 256, "tiles,tile=128x128,comm-sms=2"},
                          Case{3, 200, 72, 184, "tiles,tile=64x64,comm-sms=1,sync=counter"},
                          Case{3, 200, 72, 384, "slices,tile=64x64,mover=copy-engine,comm-sms=0"},
                          Case{4, 270, 64, 256, "slices,tile=64x64,comm-sms=3"}}) {
    const std::string op =
        fmt::format("a2a-gemm m={} n={} k={} ranks={} dtype=bf16", one.m, one.n, one.k, one.ranks);
    SCOPED_TRACE(op + " " + one.schedule);
    const Plan plan = plan_of_operator(op, fmt::format("{},k-phases={}", one.schedule, one.ranks));
    ASSERT_THAT(why_not_on_cuda(plan), IsEmpty());
    EXPECT_TRUE(TileSums(plan).needs_no_memory(*plan.find_buffer("ranges")));
    TableWalk walk(plan);
    for (const RankTables& tables : walk.tables()) {
      ASSERT_EQ(tables.gemms.size(), 1u);
      EXPECT_TRUE(tables.gemms[0].config.sources);
      EXPECT_EQ(why_illegal(tables.gemms[0].config), "");
    }
    EXPECT_FALSE(walk.run()) << "tiles need what others have";
    walk.make_copies();
    ASSERT_TRUE(walk.run());
    const Buffer& a = plan.buffers[*plan.find_buffer("a")];
    const Buffer& b = plan.buffers[*plan.find_buffer("b")];
    const Buffer& out = plan.buffers[*plan.find_buffer("out")];
    const int block = (one.m + one.ranks - 1) / one.ranks;
    for (int rank = 0; rank < one.ranks; ++rank) {
      for (int row = 0; row < out.rows_on(rank); ++row) {
        for (int column = 0; column < one.n; ++column) {
          float sum = 0;
          for (int k = 0; k < one.k; ++k) {
            const int source = k / a.cols;
            sum +=
                walk.values(source,
                            "a")[static_cast<size_t>((rank * block + row) * a.cols + k % a.cols)] *
                walk.values(rank, "b")[static_cast<size_t>(column * b.cols + k)];
          }
          ASSERT_EQ(walk.values(rank, "out")[static_cast<size_t>(row * out.cols + column)], sum)
              << rank << " " << row << " " << column;
        }
      }
    }
  }
}

TEST(ScheduledPhases, AcknowledgementsBeforeASumOverLanesComeBehindIt) {
  const Plan plan = plan_of("ag-gemm m=256 n=256 k=128 ranks=2 dtype=bf16",
                            "tiles,tile=128x128,mover=copy-engine,reuse=ack,split-k=2");
  EXPECT_THAT(why_not_on_cuda(plan), IsEmpty());
  const Tables tables(plan);
  EXPECT_TRUE(tables.all.gemms.front().config.splits);
  const device::GemmTask& task = tables.gemm().blocks[3][0];
  EXPECT_EQ(tables.gemm().splits[3][0].ranges, 2u);
  EXPECT_EQ(task.num_waits, 1);
  EXPECT_EQ(task.num_late_waits, 1);
  ASSERT_EQ(task.num_notifies, 1);
  EXPECT_EQ(tables.gemm().notifies[task.first_notify].rank, 1);
}

}  // namespace
}  // namespace stretto::cuda

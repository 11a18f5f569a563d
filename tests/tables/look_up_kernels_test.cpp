// Pooled look-ups on GPUs: their plans are accepted, and take the mover that goes by tables.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/text.h"
#include "lower/plan_of_operator.h"
#include "tables/kernel_set.h"
#include "tables/plan_limits.h"
#include "tables/routed_memory.h"

namespace stretto::cuda {
namespace {

TEST(LookUpPlans, AreAccepted) {
  for (const std::string op :
       {"embedding-a2a bags=203 tables=8 rows=100 dim=128 pool=20 ranks=4 dtype=bf16",
        "embedding-a2a bags=203 tables=5 rows=100 dim=10 pool=20 ranks=3 dtype=bf16",
        "embedding-a2a-mean bags=7 tables=6 rows=9 dim=10 pool=3 ranks=2 dtype=bf16"}) {
    for (const std::string schedule :
         {"sequential", "tiles", "slices", "decomposed", "tiles,mover=comm-blocks,comm-sms=4",
          "split=2/sequential", "split=2/tiles", "split=2/slices",
          "split=2/tiles,mover=comm-blocks,comm-sms=4"}) {
      EXPECT_EQ(join(why_not_on_cuda(plan_of_operator(op, schedule)), "; "), "")
          << op << " " << schedule;
    }
  }
}

// Of 5 tables the last of 3 ranks has one, and rows as far apart as the others' all the same.
TEST(LookUpPlans, HaveAsManyTablesAsARankHas) {
  for (const char* schedule : {"tiles,tile=8x8", "decomposed,tile=8x16", "sequential,tile=8x8"}) {
    const RoutedMemory made("embedding-a2a bags=20 tables=5 rows=9 dim=8 pool=3 ranks=3", schedule);
    for (int rank = 0; rank < 3; ++rank) {
      SCOPED_TRACE(fmt::format("{} on rank {}", schedule, rank));
      const uint32_t own = rank == 2 ? 1 : 2;
      const DevicePtr ids = address_of(made.places, rank, *made.plan.find_buffer("ids"), 0);
      uint32_t bags = 0;  // of every table
      for (const MoverTable& table : made.tables[static_cast<size_t>(rank)].moves) {
        for (const auto& block : table.blocks) {
          for (const device::MoverTask& task : block) {
            if (task.routed == 0) continue;
            const device::RoutedTask& routed = table.routed[task.routed - 1];
            EXPECT_EQ(routed.top_k, 3u);
            EXPECT_EQ(routed.table_rows, 9u);
            EXPECT_EQ(task.columns, routed.entries * 8);
            const device::MoverRegion& from = table.regions[0][task.first_region];
            EXPECT_EQ(from.row_bytes, 2u * 3 * sizeof(int32_t));
            EXPECT_LE((from.address - ids) % from.row_bytes / sizeof(int32_t) + routed.entries * 3,
                      own * 3);
            bags += task.rows * routed.entries;
          }
        }
      }
      EXPECT_EQ(bags, 20 * own);
    }
  }
}

TEST(LookUpPlans, NeedTheMoverThatGoesByTables) {
  const Plan plan = plan_of_operator(
      "embedding-a2a bags=64 tables=8 rows=100 dim=128 pool=20 ranks=2 dtype=bf16", "tiles");
  EXPECT_TRUE(plan.partitions.empty());
  std::vector<std::string> names;
  for (const KernelEntry& kernel : kernels_of(plan, "sm_90a")) names.push_back(kernel.name);
  EXPECT_THAT(names, testing::Contains("mover of routed rows"));
}

// No mover cuts their rows to those of a run.
TEST(LookUpPlans, ServeNoFewerRows) {
  const Plan plan = plan_of_operator(
      "embedding-a2a bags=64 tables=8 rows=9 dim=8 pool=2 ranks=2 dtype=bf16", "tiles");
  EXPECT_THAT(join(why_not_on_cuda(plan, TileSums(plan), true), "; "),
              testing::HasSubstr("do all of their rows: take rows=fixed"));
}

// A kernel that counted in 32 bits would leave out the others.
TEST(LookUpPlans, HaveTasksOfSoManyElements) {
  const auto limits = [](int rows) {
    return join(why_not_on_cuda(parse_plan(fmt::format(
                    "stretto-plan 2\n"
                    "operator embedding-a2a bags={0} tables=4096 rows=5 dim=8 pool=1 ranks=1 "
                    "dtype=bf16\n"
                    "sms 2\nbuffer ids i32 {0}x4096 input\nbuffer w bf16 20480x8 input\n"
                    "buffer out bf16 {0}x32768 output\n\nlane 0 compute 0\n"
                    "  embed #0 each=5 ids[0:{0},0:4096] w[0:20480,0:8] -> out[0:{0},0:32768]\n"
                    "end\n",
                    rows))),
                "; ");
  };
  EXPECT_EQ(limits(65535), "");
  EXPECT_THAT(limits(65536), testing::HasSubstr("at most 2147483647 elements at once"));
}

}  // namespace
}  // namespace stretto::cuda

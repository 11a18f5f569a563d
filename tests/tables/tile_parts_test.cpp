// Tiles of which only some rows are the rank's own: these are added to in the GEMM kernel, once the
// others have been stored.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "launch/tile_sums.h"
#include "table_walk.h"
#include "tables/plan_limits.h"

namespace stretto::cuda {
namespace {

using testing::IsEmpty;

Plan plan_with(const std::string& op_text, const std::string& schedule, int sms) {
  const Segment op = parse_segment(op_text);
  Machine machine = default_machine(op.ranks);
  machine.sms = sms;
  return lower(op, parse_schedule(schedule, op, machine), machine);
}

int64_t tasks_of_parts(const TableWalk& walk) {
  int64_t count = 0;
  for (const RankTables& tables : walk.tables()) {
    for (const GemmLaunch& launch : tables.gemms) {
      for (const auto& block : launch.table.blocks) {
        count += std::count_if(block.begin(), block.end(),
                               [](const device::GemmTask& task) { return task.num_k == 0; });
      }
    }
  }
  return count;
}

// One kernel a rank, which ends and leaves each rank's rows of the sum of all products.
void expect_right(const Plan& plan, TableWalk& walk) {
  for (const RankProgram& program : walk.programs()) {
    ASSERT_EQ(text(plan, program), "0:gemm 0");
  }
  ASSERT_TRUE(walk.run()) << "blocks wait for ever";
  const Segment& op = *plan.op.only_product();
  const RowShards shards = op.row_shards();
  const int64_t depth = op.local_k();
  for (int rank = 0; rank < op.ranks; ++rank) {
    const std::vector<float>& out = walk.values(rank, "out");
    for (int64_t row = shards.begin(rank); row < shards.end(rank); ++row) {
      for (int64_t column = 0; column < op.n; ++column) {
        float sum = 0;
        for (int source = 0; source < op.ranks; ++source) {
          const float* a = walk.values(source, "a").data() + row * depth;
          const float* b = walk.values(source, "b").data() + column * depth;
          for (int64_t k = 0; k < depth; ++k) sum += a[k] * b[k];
        }
        const auto at = static_cast<size_t>((row - shards.begin(rank)) * op.n + column);
        ASSERT_EQ(out[at], sum) << "rank " << rank << " [" << row << ", " << column << "]";
      }
    }
  }
}

struct Case {
  std::string op, schedule;
  int sms;
};

class TileParts : public testing::TestWithParam<Case> {};

TEST_P(TileParts, AreAddedToByTheKernelThatComputesThem) {
  const auto& [op, schedule, sms] = GetParam();
  const Plan plan = plan_with(op, schedule, sms);
  ASSERT_THAT(why_not_on_cuda(plan), IsEmpty());
  TableWalk walk(plan);
  EXPECT_GT(tasks_of_parts(walk), 0);
  expect_right(plan, walk);
}

std::vector<Case> cases() {
  std::vector<Case> all;
  const auto add = [&](int m, int n, int ranks, const char* schedule, int sms) {
    all.push_back(
        {fmt::format("gemm-rs m={} n={} k={} ranks={} dtype=bf16", m, n, 128 * ranks, ranks),
         schedule, sms});
  };
  for (const char* more : {"", ",order=peer-staggered", ",reuse=ack", ",split-k=2"}) {
    const std::string schedule = std::string("tiles,tile=128x64,comm-sms=0") + more;
    add(512, 136, 8, schedule.c_str(), 5);
    add(200, 136, 4, schedule.c_str(), 3);
  }
  // Halves, quarters, eighths; several owners, the own part in the middle; parts of any rows; whole
  // tiles besides; a short last shard; tiles of 64 and 256 rows, 32 columns at once.
  add(256, 64, 8, "tiles,tile=128x64,comm-sms=0", 132);
  add(128, 128, 8, "tiles,tile=128x64,comm-sms=0", 132);
  add(100, 64, 2, "tiles,tile=128x64,comm-sms=0", 132);
  add(400, 64, 3, "tiles,tile=128x64,comm-sms=0", 4);
  add(576, 64, 8, "tiles,tile=128x64,comm-sms=0", 132);
  add(503, 72, 8, "tiles,tile=128x64,comm-sms=0", 7);
  add(384, 96, 4, "tiles,tile=128x96,comm-sms=0", 132);
  add(152, 96, 4, "tiles,tile=64x96,comm-sms=0", 2);
  add(640, 64, 2, "tiles,tile=256x64,comm-sms=0", 3);
  return all;
}

INSTANTIATE_TEST_SUITE_P(Cuda, TileParts, testing::ValuesIn(cases()),
                         [](const auto& i) { return name_of_case(i); });

TEST(TileParts, OfAnySizesAreRight) {
  std::mt19937 random(11);
  const auto between = [&](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random);
  };
  int64_t parts = 0;
  for (int i = 0; i < 60; ++i) {
    const int ranks = between(2, 8), sms = between(1, 12);
    const std::string op = fmt::format("gemm-rs m={} n={} k={} ranks={} dtype=bf16",
                                       between(ranks, 420), 8 * between(1, 14), 128 * ranks, ranks);
    const std::string schedule = fmt::format(
        "tiles,tile={}x64,comm-sms=0,swizzle={},split-k={},order={}", 64 * between(1, 2),
        between(1, 9), between(1, 2), between(0, 1) == 0 ? "interleaved" : "plain");
    SCOPED_TRACE(fmt::format("{} {} on {} SMs", op, schedule, sms));
    const Plan plan = plan_with(op, schedule, sms);
    TableWalk walk(plan);
    parts += tasks_of_parts(walk);
    expect_right(plan, walk);
    if (testing::Test::HasFatalFailure()) return;
  }
  EXPECT_GT(parts, 100);
}

TEST(TileParts, AreStoredBeforeWhatOthersSendIsAwaited) {
  const Plan plan = plan_with("gemm-rs m=512 n=512 k=1024 ranks=8 dtype=bf16",
                              "tiles,tile=128x128,comm-sms=0,order=interleaved", 132);
  TableWalk walk(plan);
  const device::GemmConfig& config = walk.tables()[1].gemms[0].config;
  EXPECT_EQ(config.adds, 7);
  EXPECT_EQ(config.tile_m, 128);
  int parts = 0;
  for (const auto& block : walk.tables()[1].gemms[0].table.blocks) {
    for (size_t t = 0; t < block.size(); ++t) {
      const device::GemmTask& part = block[t];
      if (part.num_k != 0) {
        EXPECT_EQ(part.num_late_waits + part.sum_step, 0);
        continue;
      }
      ++parts;
      // Rank 1 has rows [64, 128) of the first tile row. What is rank 0's is announced at once.
      ASSERT_GT(t, 0u);
      const device::GemmTask& others = block[t - 1];
      EXPECT_EQ(others.tile, part.tile);
      EXPECT_EQ(others.num_destinations, 1);
      EXPECT_EQ(others.num_notifies, 1);
      EXPECT_EQ(others.stores_far, 0);
      EXPECT_EQ(part.num_waits, 0);
      EXPECT_EQ(part.num_late_waits, 7);
      EXPECT_EQ(part.num_destinations, 1);
      EXPECT_EQ(part.sum_row, -64);
      EXPECT_EQ(part.sum_step, 64);
      EXPECT_EQ(part.sum_own, 1);
      // Half of the tile's rows are loaded.
      EXPECT_EQ(part.sum_box, 1);
      EXPECT_EQ(part.sum_begin, 1);
      EXPECT_EQ(part.sum_end, 2);
    }
  }
  EXPECT_EQ(parts, 4);
}

// Rank 0 has rows [0, 64) of tile #0.
Plan hand_plan(const std::string& between, const std::string& elsewhere) {
  return parse_plan(fmt::format(R"(stretto-plan 1
operator gemm-rs m=128 n=64 k=256 ranks=2 dtype=bf16
sms 132
buffer a bf16 128x128 input
buffer b bf16 64x128 input
buffer slots bf16 128x64 symmetric copies=2
buffer copied bf16 64x64 local
buffer out bf16 64x64 output sharded=128
signals slots 3 copies=2
lane 0 compute 0
  gemm #0 a[0:128,0:128] b[0:64,0:128] -> slots[0:64,0:64] slots@1[0:64,0:64]
{}  reduce #0 slots[0:64,0:64] slots[64:128,0:64] -> out[0:64,0:64]
  notify slots.2@0 += 1
lane 0 comm 0
  wait slots.2 >= 1
  copy {} -> copied[0:64,0:64]
end
)",
                                between, elsewhere));
}

bool adds(const Plan& plan) { return TileSums(plan).of(0, 0).stores_before(); }

TEST(TileParts, AreLeftToAMoverWhereTheKernelWouldTellTooEarlyOrSomebodyReadsThem) {
  const std::string tell = "  notify slots.0@1 += 1\n", await = "  wait slots.1 >= 1\n";
  EXPECT_TRUE(adds(hand_plan(tell + await, "a[0:64,0:64]")));
  EXPECT_TRUE(adds(hand_plan(await, "a[0:64,0:64]")));
  EXPECT_FALSE(adds(hand_plan(await + tell, "a[0:64,0:64]")));
  EXPECT_FALSE(adds(hand_plan(tell + await, "slots[0:64,0:64]")));
  EXPECT_TRUE(adds(hand_plan(tell + await, "slots[64:128,0:64]")));
  EXPECT_THAT(why_not_on_cuda(hand_plan(tell + await, "a[0:64,0:64]")), IsEmpty());
}

TEST(TileParts, AreNotForRunsOfFewerRows) {
  const Plan plan = hand_plan("", "a[0:64,0:64]");
  EXPECT_THAT(why_not_on_cuda(plan, TileSums(plan), true),
              testing::Contains(testing::HasSubstr("rows=bucket cuts them at owners")));
}

}  // namespace
}  // namespace stretto::cuda

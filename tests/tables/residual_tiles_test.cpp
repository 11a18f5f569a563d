// Tiles that take on other ranks' sums and then a residual while the GEMM kernel has them in
// registers.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "table_walk.h"
#include "tables/plan_limits.h"

namespace stretto::cuda {
namespace {

using testing::IsEmpty;

Plan plan_with(const std::string& op_text, const std::string& schedule, int sms) {
  const Operator op = parse_operator(op_text);
  Machine machine = default_machine(op.ranks);
  machine.sms = sms;
  return lower(op, parse_schedules(schedule, op, machine), machine);
}

// What a rank's rows of S are: the sum of all products, and R.
float sum_at(const TableWalk& walk, const Operator& op, const Segment& product, int64_t row,
             int64_t column, const std::vector<float>& residual, int64_t residual_row) {
  float sum = residual[static_cast<size_t>(residual_row * product.n + column)];
  const int64_t depth = product.local_k();
  for (int source = 0; source < op.ranks; ++source) {
    const float* a = walk.values(source, "a").data() + row * depth;
    const float* b = walk.values(source, "b").data() + column * depth;
    for (int64_t k = 0; k < depth; ++k) sum += a[k] * b[k];
  }
  return sum;
}

struct Case {
  std::string op, schedule;
  int sms;
};

class ResidualTiles : public testing::TestWithParam<Case> {};

TEST_P(ResidualTiles, AreAddedUpByTheKernelThatComputesThem) {
  const Plan plan = plan_with(GetParam().op, GetParam().schedule, GetParam().sms);
  const Operator& op = plan.op;
  ASSERT_THAT(why_not_on_cuda(plan), IsEmpty());
  TableWalk walk(plan);
  ASSERT_TRUE(walk.run()) << "blocks wait for ever";
  const Segment& product = *op.segments[0].product;
  int64_t elsewhere = 0;
  for (const RankTables& tables : walk.tables()) {
    for (const auto& block : tables.gemms[0].table.blocks) {
      for (const device::GemmTask& task : block) elsewhere += task.sum_elsewhere;
    }
    EXPECT_EQ(tables.gemms[0].config.adds, op.ranks);
  }
  EXPECT_GT(elsewhere, 0);
  const RowShards shards = product.row_shards();
  for (int rank = 0; rank < op.ranks; ++rank) {
    const std::vector<float>& s = walk.values(rank, "s");
    for (int64_t row = shards.begin(rank); row < shards.end(rank); ++row) {
      const int64_t own = row - shards.begin(rank);
      for (int64_t column = 0; column < product.n; ++column) {
        ASSERT_EQ(s[static_cast<size_t>(own * product.n + column)],
                  sum_at(walk, op, product, row, column, walk.values(rank, "r"), own))
            << "rank " << rank << " [" << row << ", " << column << "]";
      }
    }
  }
}

std::vector<Case> cases() {
  std::vector<Case> all;
  const auto add = [&](int m, int n, int ranks, const char* schedule, int sms) {
    all.push_back(
        {fmt::format("gemm-rs-norm m={} n={} k={} ranks={} dtype=bf16", m, n, 128 * ranks, ranks),
         schedule, sms});
  };
  // Whole tiles; parts of a tile that several ranks own; ragged rows and columns; ranges of K.
  add(512, 128, 2, "tiles,tile=128x64,comm-sms=0", 5);
  add(256, 64, 8, "tiles,tile=128x64,comm-sms=0", 132);
  add(400, 64, 3, "tiles,tile=128x64,comm-sms=0", 4);
  add(503, 72, 4, "tiles,tile=128x64,comm-sms=0", 7);
  add(200, 136, 4, "tiles,tile=128x64,comm-sms=0,split-k=2", 3);
  add(152, 96, 4, "tiles,tile=64x96,comm-sms=0", 2);
  return all;
}

INSTANTIATE_TEST_SUITE_P(Cuda, ResidualTiles, testing::ValuesIn(cases()), [](const auto& info) {
  std::string name = info.param.op + "_" + info.param.schedule;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(c); }, '_');
  return name;
});

TEST(ResidualTilesOfFewerRows, AreNotServed) {
  const Plan plan = plan_with("gemm-rs-norm m=512 n=128 k=256 ranks=2 dtype=bf16",
                              "tiles,tile=128x64,comm-sms=0", 5);
  EXPECT_THAT(why_not_on_cuda(plan, TileSums(plan), true),
              testing::Contains(testing::HasSubstr("add no residual to tiles")));
}

// Owners of whole tiles send what they have added up to all ranks.
TEST(ResidualTilesOfAllReduces, AreWrittenByTheirOwnersToAll) {
  const Plan plan = plan_with("gemm-ar-norm m=700 n=128 k=256 ranks=2 dtype=bf16",
                              "tiles,tile=128x64,comm-sms=0", 3);
  ASSERT_THAT(why_not_on_cuda(plan), IsEmpty());
  TableWalk walk(plan);
  ASSERT_TRUE(walk.run()) << "blocks wait for ever";
  const Segment& product = *plan.op.segments[0].product;
  const std::vector<float>&first = walk.values(0, "p"), &second = walk.values(1, "p");
  int64_t of_either[2] = {};
  for (int64_t row = 0; row < product.m; ++row) {
    for (int64_t column = 0; column < product.n; ++column) {
      const auto at = static_cast<size_t>(row * product.n + column);
      ASSERT_EQ(first[at], second[at]) << "[" << row << ", " << column << "]";
      // Who owns it has added its own residual, which is another one on each rank here.
      const auto with = [&](int rank) {
        return sum_at(walk, plan.op, product, row, column, walk.values(rank, "r"), row);
      };
      ASSERT_TRUE(first[at] == with(0) || first[at] == with(1));
      ++of_either[first[at] == with(0) ? 0 : 1];
    }
  }
  EXPECT_GT(of_either[0], 0);
  EXPECT_GT(of_either[1], 0);
}

}  // namespace
}  // namespace stretto::cuda

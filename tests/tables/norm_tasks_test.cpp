// Norms of rows, alone and behind the sum that makes the rows, as tasks of the mover's table.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch/plan_fixture.h"
#include "tables/mover_tasks.h"

namespace stretto::cuda {
namespace {

using testing::HasSubstr;

// Rows 2 to 4 of `sum` are normed into two places.
class NormTasks : public testing::Test {
 protected:
  static Plan plan_of(int columns) {
    return parse_plan(fmt::format(R"(stretto-plan 1
operator gemm-rs m=256 n=128 k=128 ranks=1 dtype=bf16
sms 132
buffer slots bf16 8x{0} local
buffer sum bf16 8x{0} local
buffer w bf16 1x{0} input
buffer y bf16 16x{0} local
lane 0 comm 0
  reduce #5 slots[2:4,0:{0}] slots[6:8,0:{0}] -> sum[2:4,0:{0}]
end
)",
                                  columns));
  }
  static Region rows(int buffer, int first, int columns) {
    return {first, first + (buffer == 2 ? 1 : 2), 0, columns, static_cast<uint16_t>(buffer), 0};
  }
  // Appends the norm's operands.
  static Instr norm_in(Plan& plan, int columns) {
    Instr norm = plan.lanes[0].instrs[0];
    norm.first_operand = static_cast<uint32_t>(plan.operands.size());
    norm.num_reads = norm.num_writes = 2;
    for (const Region& region :
         {rows(1, 2, columns), rows(2, 0, columns), rows(3, 2, columns), rows(3, 10, columns)}) {
      plan.operands.push_back(region);
    }
    return norm;
  }
};

TEST_F(NormTasks, TakeTheSumThatMakesTheirRows) {
  Plan plan = plan_of(64);
  const Instr norm = norm_in(plan, 64);
  const TileSums sums(plan);
  const BufferPlaces places = places_of(plan);
  const SignalLayout signals(plan, programs_of(plan), true);
  const TableBasis basis{plan, 0, places, signals, sums, false, 1};
  MoverTable table;
  table.regions.resize(1);
  LaneHazards hazards;
  const NormedRows both{&plan.lanes[0].instrs[0], &norm, 0.5f}, alone{nullptr, &norm, 0.25f};
  EXPECT_EQ(why_no_norm(plan, both), "");
  const device::MoverTask one = norm_task(basis, both, table, hazards);
  EXPECT_TRUE(table.norms);
  EXPECT_EQ(one.num_sources, 2);
  EXPECT_EQ(one.num_destinations, 3);
  EXPECT_EQ(one.num_normed, 2);
  EXPECT_EQ(one.rows, 2u);
  EXPECT_EQ(one.columns, 64u);
  EXPECT_EQ(one.epsilon, 0.5f);
  EXPECT_EQ(one.drains, 0);
  ASSERT_EQ(table.regions[0].size(), 6u);
  const auto at = [&](int buffer, int row) {
    return basis.address(rows(buffer, 0, 64), 0) + static_cast<DevicePtr>(row) * 128;
  };
  EXPECT_EQ(table.regions[0][1].address, at(0, 6));
  EXPECT_EQ(table.regions[0][2].address, at(1, 2));
  EXPECT_EQ(table.regions[0][4].address, at(3, 10));
  EXPECT_EQ(table.regions[0][5].address, at(2, 0));

  // It reads what the task before it has written.
  const device::MoverTask two = norm_task(basis, alone, table, hazards);
  EXPECT_EQ(two.num_sources, 1);
  EXPECT_EQ(two.num_destinations, 2);
  EXPECT_EQ(two.drains, 1);
  EXPECT_EQ(table.regions[0][6].address, at(1, 2));
}

TEST_F(NormTasks, SayWhatWouldBeRight) {
  Plan plan = plan_of(36);
  Instr norm = norm_in(plan, 36);
  EXPECT_THAT(why_no_norm(plan, {nullptr, &norm, 1}), HasSubstr("take a multiple of 8"));
  plan = plan_of(64);
  norm = norm_in(plan, 64);
  plan.buffers[3].dtype = DType::fp32;
  EXPECT_THAT(why_no_norm(plan, {nullptr, &norm, 1}), HasSubstr("has bf16 rows, not fp32"));
  // A row of more than a stage is read twice: what it is made of must still be there.
  plan = plan_of(8200);
  norm = norm_in(plan, 8200);
  const NormedRows both{&plan.lanes[0].instrs[0], &norm, 1};
  EXPECT_EQ(why_no_norm(plan, both), "");
  plan.operands[plan.lanes[0].instrs[0].first_operand + 2] = rows(0, 2, 8200);
  EXPECT_THAT(why_no_norm(plan, both), HasSubstr("by a task of its own"));
}

// Rows 2 to 4 of three tiles and a residual.
constexpr const char* kRestores = R"(stretto-plan 2
operator gemm-rs m=256 n=128 k=128 ranks=1 dtype=bf16
sms 132
buffer packed bf16 24x64 local
buffer r bf16 8x160 local
buffer s bf16 8x160 local
buffer w bf16 1x160 input
buffer y bf16 8x160 local
lane 0 comm 0
  restore #7 packed[2:4,0:64] packed[18:20,0:64] packed[10:12,0:32] r[2:4,0:160] -> s[2:4,0:160]
  norm fused eps=0.5 s[2:4,0:160] w[0:1,0:160] -> y[2:4,0:160]
  restore packed[4:5,0:64] packed[20:21,0:64] packed[12:13,0:32] -> s[4:5,0:160] y[4:5,0:160]
end
)";

TEST(RestoreTasks, SayHowTheirFirstSourceLies) {
  const Plan plan = parse_plan(kRestores);
  const TileSums sums(plan);
  const BufferPlaces places = places_of(plan);
  const SignalLayout signals(plan, programs_of(plan), true);
  const TableBasis basis{plan, 0, places, signals, sums, false, 1};
  MoverTable table;
  table.regions.resize(1);
  LaneHazards hazards;
  const std::vector<Instr>& instrs = plan.lanes[0].instrs;
  const NormedRows rows = rows_normed_at(plan.lanes[0], 0);
  ASSERT_EQ(rows.sum, &instrs[0]);
  EXPECT_EQ(why_no_norm(plan, rows), "");
  const device::MoverTask normed = norm_task(basis, rows, table, hazards);
  EXPECT_EQ(normed.num_sources, 4);
  EXPECT_EQ(normed.more_tiles, 2);
  EXPECT_EQ(normed.tile_columns, 64);
  EXPECT_EQ(normed.num_destinations, 2);
  EXPECT_EQ(normed.num_normed, 1);
  EXPECT_EQ(normed.rows, 2u);
  EXPECT_EQ(normed.columns, 160u);
  // Its tiles, the residual, the sum, the norm, and the weights.
  ASSERT_EQ(table.regions[0].size(), 7u);
  const auto at = [&](const Instr& instr, size_t operand, bool reads = true) {
    return basis.address((reads ? plan.reads(instr) : plan.writes(instr))[operand], 0);
  };
  for (size_t i = 0; i < 4; ++i) {
    const uint64_t row = static_cast<uint64_t>(plan.reads(instrs[0])[i].row0) * (i < 3 ? 128 : 320);
    EXPECT_EQ(table.regions[0][i].address, at(instrs[0], i) + row) << i;
  }
  EXPECT_EQ(table.regions[0][4].address, at(instrs[0], 0, false) + 2 * 320);
  EXPECT_EQ(table.regions[0][6].address, at(instrs[1], 1));

  // Alone it is no copy, which TMA would send as it came, and a task of kernels that norm.
  table.norms = false;
  const device::MoverTask alone = mover_task(basis, instrs[2], table, hazards);
  EXPECT_TRUE(table.norms);
  EXPECT_EQ(alone.num_sources, 3);
  EXPECT_EQ(alone.more_tiles, 2);
  EXPECT_EQ(alone.num_destinations, 2);
  EXPECT_EQ(alone.vectors, 1);
  EXPECT_EQ(alone.rows, 1u);
  EXPECT_EQ(alone.columns, 160u);
  EXPECT_EQ(alone.first_region, 7u);
  EXPECT_EQ(table.regions[0].size(), 12u);
}

// What follows a library's product; a bias is a sum whose second source is one row for all.
TEST(MapTasks, SayWhatTheyMakeOfTheirSources) {
  const Plan plan = parse_plan(R"(stretto-plan 1
operator gemm-rs m=256 n=128 k=128 ranks=1 dtype=bf16
sms 132
buffer g bf16 8x64 local
buffer u bf16 8x64 local
buffer row bf16 1x64 input
buffer y bf16 8x64 local
lane 0 comm 0
  bias g[0:4,0:64] row[0:1,0:64] -> y[0:4,0:64]
  gelu y[0:4,0:64] -> u[0:4,0:64]
  swiglu g[4:8,0:64] u[4:8,0:64] -> y[4:8,0:64]
  silu g[0:4,0:32] -> y[0:4,0:32]
  copy g[0:4,0:64] -> y[0:4,0:64]
end
)");
  const TileSums sums(plan);
  const BufferPlaces places = places_of(plan);
  const SignalLayout signals(plan, programs_of(plan), true);
  const TableBasis basis{plan, 0, places, signals, sums, false, 1};
  MoverTable table;
  table.regions.resize(1);
  LaneHazards hazards;
  std::vector<device::MoverTask> tasks;
  for (const Instr& instr : plan.lanes[0].instrs) {
    if (instr.is_task()) tasks.push_back(mover_task(basis, instr, table, hazards));
  }
  ASSERT_EQ(tasks.size(), 5u);
  using device::MoverMap;
  const MoverMap maps[] = {MoverMap::none, MoverMap::gelu, MoverMap::swiglu, MoverMap::silu,
                           MoverMap::none};
  for (size_t i = 0; i < tasks.size(); ++i) {
    EXPECT_EQ(tasks[i].map, maps[i]);
    EXPECT_EQ(tasks[i].num_sources, i == 0 || maps[i] == MoverMap::swiglu ? 2 : 1);
    EXPECT_EQ(tasks[i].num_destinations, 1);
    EXPECT_EQ(tasks[i].vectors, maps[i] == MoverMap::none ? 1 : 2);
  }
  EXPECT_TRUE(table.norms);
  // Columns count where a row is added; else what lies together is one row.
  EXPECT_EQ(tasks[0].rows, 4u);
  EXPECT_EQ(tasks[1].rows, 1u);
  EXPECT_EQ(tasks[3].rows, 4u);
  EXPECT_EQ(table.regions[0][tasks[0].first_region + 1].address,
            basis.address(plan.reads(plan.lanes[0].instrs[0])[1], 0));
  EXPECT_EQ(table.regions[0][tasks[0].first_region + 1].row_bytes, 0u);
  EXPECT_EQ(tasks[1].first_region, tasks[0].first_region + 3);
  EXPECT_EQ(tasks[1].drains, 1);
}

}  // namespace
}  // namespace stretto::cuda

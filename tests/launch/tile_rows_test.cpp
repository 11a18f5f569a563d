// Rows that the GEMM kernel's blocks norm behind their tiles, and that tables and kernels follow.
#include <gtest/gtest.h>

#include "gpu/gemm_kernel.h"
#include "launch/signal_layout.h"
#include "lower/plan_of_operator.h"
#include "plan_fixture.h"
#include "tables/kernel_set.h"
#include "tables/plan_tables.h"

namespace stretto::cuda {
namespace {

constexpr const char* kOp = "gemm-ar-norm m=300 n=512 k=256 ranks=2 dtype=bf16";
const std::string kTiles = "tiles,tile=64x64,mover=epilogue,granularity=tile,comm-sms=0,sync=flag";

Plan with_rows(const std::string& changes = "") {
  return plan_of_operator(kOp, kTiles + changes + "/out:mover=epilogue");
}

RankTables tables_of(const Plan& plan, const RankProgram& program) {
  const std::vector<RankProgram> programs = programs_of(plan);
  const SignalLayout signals(plan, programs, /*stream_waits=*/true);
  return tables_for(plan, 0, program, places_of(plan), signals);
}

TEST(TileRows, AreNoKernelOfTheirOwn) {
  for (const char* reduction : {",reduction=two-shot", ",reduction=one-shot"}) {
    const Plan plan = with_rows(reduction);
    for (const RankProgram& program : programs_of(plan)) {
      EXPECT_EQ(text(plan, program), "0:gemm 0");
      ASSERT_EQ(program.moves.size(), 1u);
      EXPECT_TRUE(program.are_rows(0));
      EXPECT_TRUE(program.needs[0].norms);
      ASSERT_EQ(program.moves[0].size(), program.gemms[0].size());
      for (size_t b = 0; b < program.gemms[0].size(); ++b) {
        EXPECT_EQ(program.moves[0][b].lane, program.gemms[0][b].lane);
        EXPECT_EQ(program.moves[0][b].end, program.gemms[0][b].end);
      }
    }
  }
  const Plan apart = plan_of_operator(kOp, kTiles);
  EXPECT_EQ(text(apart, programs_of(apart)[0]), "0:gemm 0 0:move 0");
  EXPECT_FALSE(programs_of(apart)[0].needs[0].norms);
}

TEST(TileRows, HaveATableBlockByBlock) {
  const Plan plan = with_rows();
  const RankProgram program = programs_of(plan)[0];
  const RankTables tables = tables_of(plan, program);
  EXPECT_TRUE(tables.gemms[0].config.norms);
  const MoverTable& rows = tables.moves[0];
  ASSERT_EQ(rows.blocks.size(), tables.gemms[0].table.blocks.size());
  EXPECT_FALSE(rows.passes);
  uint32_t normed = 0;
  for (const auto& block : rows.blocks) {
    for (const device::MoverTask& task : block) {
      EXPECT_EQ(task.num_normed, 1);
      normed += task.rows;
    }
  }
  EXPECT_EQ(normed, 300u);
}

// What else stands behind tiles makes a kernel of movers of it all.
TEST(TileRows, AreAKernelWithWhatBlocksOfTilesCannotDo) {
  Plan plan = with_rows();
  Lane& lane = plan.lanes.front();
  Instr copy = lane.instrs.front();
  ASSERT_EQ(copy.op, Opcode::gemm);
  copy.op = Opcode::copy;
  copy.num_reads = copy.num_writes = 1;
  copy.fused = false;
  lane.instrs.push_back(copy);
  const RankProgram program = programs_of(plan)[0];
  EXPECT_EQ(text(plan, program), "0:gemm 0 0:move 0");
  EXPECT_FALSE(program.needs[0].norms);
}

TEST(TileRows, HaveAKernelAmongThosePrepared) {
  bool norms = false;
  for (const KernelEntry& entry : kernels_of(with_rows(), "sm_90a", false)) {
    norms = norms || entry.name.ends_with(" overlap adds 2 norms");
  }
  EXPECT_TRUE(norms);
}

}  // namespace
}  // namespace stretto::cuda

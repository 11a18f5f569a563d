// Rows of packed tiles: who norms them looks the tiles up, and no task puts them in order before.
#include <gtest/gtest.h>

#include <algorithm>

#include "lower/plan_of_operator.h"
#include "op/graph_text.h"
#include "stretto/check.h"

namespace stretto {
namespace {

constexpr const char* kWaves = "waves,tile=64x64,comm-sms=2,groups=1+2+1";

int64_t count(const Plan& plan, Opcode op) {
  int64_t found = 0;
  for (const Lane& lane : plan.lanes) {
    found += std::count_if(lane.instrs.begin(), lane.instrs.end(),
                           [&](const Instr& instr) { return instr.op == op; });
  }
  return found;
}

// Every restore is one task with the norm behind it, and together they make each row once: of so
// many tiles and what is added.
void expect_restored(const Plan& plan, const char* packed, size_t tiles, size_t added,
                     int64_t rows_of_all) {
  EXPECT_EQ(count(plan, Opcode::copy), 0);
  EXPECT_EQ(count(plan, Opcode::reduce), 0);
  int64_t rows = 0;
  for (const Lane& lane : plan.lanes) {
    for (size_t i = 0; i < lane.instrs.size(); ++i) {
      const Instr& instr = lane.instrs[i];
      if (instr.op != Opcode::restore) continue;
      const auto reads = plan.reads(instr);
      ASSERT_EQ(reads.size(), tiles + added);
      for (size_t tile = 0; tile < tiles; ++tile) {
        EXPECT_EQ(plan.buffers[reads[tile].buffer].name, packed);
      }
      rows += reads[0].rows();
      ASSERT_LT(i + 1, lane.instrs.size());
      EXPECT_EQ(lane.instrs[i + 1].op, Opcode::norm);
      EXPECT_TRUE(lane.instrs[i + 1].fused) << "one task with what restores its rows";
    }
  }
  EXPECT_EQ(rows, rows_of_all);
  EXPECT_TRUE(check(plan).clean());
}

TEST(RestoredRows, TakeTheResidualOnAndAreNormedAtOnce) {
  const Plan plan = plan_of_operator("gemm-ar-norm m=300 n=200 k=256 ranks=2 dtype=bf16", kWaves);
  expect_restored(plan, "p_packed", 4, 1, 2 * 300);
  EXPECT_FALSE(plan.find_buffer("p")) << "sums without the residual are stored in no order";
}

TEST(RestoredRows, OfOwnersLieInTheirSums) {
  const Plan plan = plan_of_operator("gemm-rs-norm m=301 n=200 k=384 ranks=3 dtype=bf16", kWaves);
  expect_restored(plan, "p_sums", 4, 1, 301);
}

// The part of a row of tiles that a lane has is a task.
TEST(RestoredRows, AreCutWhereTilesMeet) {
  const Plan plan = plan_of_operator("gemm-ar-norm m=300 n=64 k=256 ranks=2 dtype=bf16", kWaves);
  for (const Lane& lane : plan.lanes) {
    for (const Instr& instr : lane.instrs) {
      if (instr.op != Opcode::restore) continue;
      const Region& row = plan.writes(instr)[0];
      EXPECT_EQ(row.row0 / 64, (row.row1 - 1) / 64);
    }
  }
}

constexpr const char* kResidual = "input r [m, n] whole\n";
constexpr const char* kWeights = "input w [1, n] whole\n";

// Behind a product of 200 rows and 128 columns.
Plan plan_behind(const std::string& stages) {
  const auto graph = parse_graph(
      "graph mine m n k\ninput a [m, k] cols\ninput b [n, k] cols\np = gemm a b\n" + stages);
  const Operator op = make_graph(graph, {{"m", 200}, {"n", 128}, {"k", 128}}, 2, DType::bf16);
  const Machine machine = default_machine(op.ranks);
  return lower(op, parse_schedules(kWaves, op, machine), machine);
}

TEST(RestoredRows, NeedNoResidual) {
  expect_restored(plan_behind(std::string(kWeights) + "y = norm p w\noutput y rows\n"), "p_sums", 2,
                  0, 200);
}

// Who else takes the sums needs them in order.
TEST(RestoredRows, AreNotThoseThatOthersTake) {
  const Plan plan =
      plan_behind(std::string(kResidual) + kWeights +
                  "s = add p r\ny = norm s w\nz = add p y\noutput z whole\noutput y whole\n");
  EXPECT_EQ(count(plan, Opcode::restore), 0);
  EXPECT_EQ(count(plan, Opcode::copy), 2 * 4 * 2) << "tiles of both ranks";
  EXPECT_TRUE(check(plan).clean());
}

// Nor those that nobody norms: their tiles are put in order by as many lanes as there are.
TEST(RestoredRows, AreNotThoseThatAreOnlyAdded) {
  EXPECT_EQ(
      count(plan_behind(std::string(kResidual) + "s = add p r\noutput s whole\n"), Opcode::restore),
      0);
}

// A task names each tile of its row: of very many they are put in order first.
TEST(RestoredRows, AreOfAThousandTilesAtMost) {
  const auto restores = [](const char* op) {
    return count(plan_of_operator(op, "waves,tile=8x16,comm-sms=2"), Opcode::restore);
  };
  EXPECT_GT(restores("gemm-ar-norm m=8 n=16384 k=16 ranks=2 dtype=bf16"), 0);
  EXPECT_EQ(restores("gemm-ar-norm m=8 n=16400 k=16 ranks=2 dtype=bf16"), 0);
}

}  // namespace
}  // namespace stretto

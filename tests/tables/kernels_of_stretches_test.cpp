// What compute lanes have between two boundaries is a GEMM kernel of its own configuration.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpu/gemm_kernel.h"
#include "launch/plan_fixture.h"
#include "tables/kernel_set.h"
#include "tables/plan_limits.h"
#include "tables/plan_tables.h"

namespace stretto::cuda {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Tiles of 64x64 into bf16; behind a boundary one of 128x128 to which a peer's is added, and one of
// rank 1 that is smaller.
constexpr const char* kTwoShapes = R"(stretto-plan 1
operator gemm-rs m=256 n=128 k=128 ranks=2 dtype=bf16
sms 132
buffer a bf16 256x64 input
buffer b bf16 128x64 input
buffer half bf16 64x64 local
buffer slots bf16 256x128 symmetric copies=2
buffer out bf16 128x128 output sharded=256
signals slots 1 copies=2
lane 0 compute 0
  gemm #0 a[0:64,0:64] b[0:64,0:64] -> half[0:64,0:64]
  boundary 0
  gemm #1 a[128:256,0:64] b[0:128,0:64] -> slots@1[0:128,0:128]
  notify slots.0@1 += 1
  gemm #0 a[0:128,0:64] b[0:128,0:64] -> slots[0:128,0:128]
  wait slots.0 >= 1
  reduce #0 slots[0:128,0:128] slots[128:256,0:128] -> out[0:128,0:128]
lane 1 compute 0
  gemm #0 a[0:64,0:64] b[0:64,0:64] -> half[0:64,0:64]
  boundary 0
  gemm #0 a[0:64,0:64] b[0:128,0:64] -> slots@0[128:192,0:128]
  gemm #0 a[64:128,0:64] b[0:128,0:64] -> slots@0[192:256,0:128]
  notify slots.0@0 += 1
  gemm #1 a[128:192,0:64] b[0:64,0:64] -> half[0:64,0:64]
end
)";

std::vector<std::string> configs_of(const RankTables& tables) {
  std::vector<std::string> configs;
  for (const GemmLaunch& launch : tables.gemms) configs.push_back(describe(launch.config));
  return configs;
}

TEST(KernelsOfStretches, EachHasTheTilesAndSumsOfItsOwn) {
  const Plan plan = parse_plan(kTwoShapes);
  EXPECT_THAT(why_not_on_cuda(plan), IsEmpty());
  const std::vector<RankProgram> programs = programs_of(plan);
  const SignalLayout signals(plan, programs, true);
  for (int rank = 0; rank < 2; ++rank) {
    const RankProgram& program = programs[static_cast<size_t>(rank)];
    const RankTables tables = tables_for(plan, rank, program, places_of(plan), signals);
    ASSERT_EQ(tables.gemms.size(), 2u);
    EXPECT_EQ(tables.gemms[0].config.tile_m, 64);
    EXPECT_EQ(tables.gemms[0].config.tile_n, 64);
    EXPECT_EQ(tables.gemms[0].config.adds, 0);
    // Ranks take the same kernel, whatever their own tiles are.
    EXPECT_EQ(tables.gemms[1].config.tile_m, 128);
    EXPECT_EQ(tables.gemms[1].config.tile_n, 128);
    EXPECT_EQ(tables.gemms[1].config.adds, 1);
  }
}

TEST(KernelsOfStretches, EachIsCompiledAheadOnce) {
  const Plan plan = parse_plan(kTwoShapes);
  const std::vector<RankProgram> programs = programs_of(plan);
  const SignalLayout signals(plan, programs, true);
  const std::vector<std::string> configs =
      configs_of(tables_for(plan, 0, programs[0], places_of(plan), signals));
  std::vector<std::string> gemms;
  for (const KernelEntry& kernel : kernels_of(plan, "sm_90a")) {
    if (kernel.name.rfind("gemm ", 0) == 0) gemms.push_back(kernel.name);
  }
  EXPECT_THAT(gemms, ElementsAre("gemm " + configs[0], "gemm " + configs[1]));
  EXPECT_NE(configs[0], configs[1]);
}

TEST(KernelsOfStretches, TilesOfOneAreWrittenInOneType) {
  std::string text = kTwoShapes;
  const std::string was = "buffer half bf16", is = "buffer half fp32";
  text.replace(text.find(was), was.size(), is);
  EXPECT_THAT(why_not_on_cuda(parse_plan(text)),
              ElementsAre(HasSubstr("between two boundaries must be written in one type")));
  const std::string own = "  gemm #1 a[128:192,0:64] b[0:64,0:64] -> half[0:64,0:64]\n";
  text.erase(text.find(own), own.size());
  EXPECT_THAT(why_not_on_cuda(parse_plan(text)), IsEmpty());
}

}  // namespace
}  // namespace stretto::cuda

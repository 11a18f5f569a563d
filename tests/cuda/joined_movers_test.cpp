// Which comm lanes are blocks of the GEMM kernel, and that tables and kernels follow.
#include "cuda/joined_movers.h"

#include <gtest/gtest.h>

#include "cuda/kernel_set.h"
#include "plan_fixture.h"

namespace stretto::cuda {
namespace {

std::vector<RankProgram> programs(const std::string& op, const std::string& schedule) {
  return programs_of(plan_of(op, schedule));
}

bool joins(const std::string& op, const std::string& schedule) {
  const std::vector<RankProgram> all = programs(op, schedule);
  for (const RankProgram& program : all) {
    EXPECT_EQ(program.joins(), all.front().joins());
    const bool has_stream = program.streams.size() == 2;
    EXPECT_NE(program.joins(), has_stream);
  }
  return all.front().joins();
}

TEST(JoinedMovers, AreThoseOfGathersInWholeVectors) {
  EXPECT_TRUE(joins("ag-gemm m=512 n=1024 k=512 ranks=4 dtype=bf16", "tiles,comm-sms=4"));
  EXPECT_TRUE(joins("ag-gemm m=515 n=1000 k=520 ranks=4 dtype=fp16", "tiles,comm-sms=3"));
  EXPECT_TRUE(
      joins("ag-gemm m=512 n=1024 k=2048 ranks=4 dtype=bf16", "tiles,comm-sms=4,k-phases=4"));
}

TEST(JoinedMovers, AreNotThoseThatAdd) {
  EXPECT_FALSE(joins("gemm-rs m=512 n=1024 k=512 ranks=4 dtype=bf16", "tiles,comm-sms=4"));
}

// Rows of 516 elements are no multiple of 16 bytes.
TEST(JoinedMovers, AreNotThoseOfSingleElements) {
  EXPECT_FALSE(joins("ag-gemm m=512 n=1024 k=516 ranks=4 dtype=bf16", "tiles,comm-sms=4"));
}

TEST(JoinedMovers, AreNoneWhereCopyEnginesMove) {
  for (const RankProgram& program :
       programs("ag-gemm m=512 n=1024 k=512 ranks=4 dtype=bf16", "tiles,mover=copy-engine")) {
    EXPECT_FALSE(program.joins());
  }
}

TEST(JoinedMovers, AreInTheNamesOfKernels) {
  const Plan plan = plan_of("ag-gemm m=512 n=1024 k=512 ranks=4 dtype=bf16", "tiles,comm-sms=4");
  const std::vector<KernelEntry> kernels = kernels_of(plan, "sm_90a");
  EXPECT_NE(kernels.front().name.find(" moves"), std::string::npos) << kernels.front().name;
  EXPECT_NE(kernels.front().source.find("GemmMoverParams"), std::string::npos);
}

}  // namespace
}  // namespace stretto::cuda

// Ranks that share a GPU: which plans cannot.
#include "launch/shared_streams.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lower/plan_of.h"

namespace stretto::cuda {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> reasons(const std::string& schedule, int ranks_a_gpu) {
  const Plan plan = plan_of("gemm-rs m=512 n=512 k=512 ranks=8 dtype=bf16", schedule);
  return why_not_shared(plan, programs_of(plan), ranks_a_gpu);
}

TEST(SharedStreams, PlansWithNcclNeedAGpuARank) {
  for (const char* schedule : {"sequential", "waves"}) {
    EXPECT_THAT(reasons(schedule, 4),
                ElementsAre(HasSubstr("NCCL serves one rank a GPU, and here 4 "
                                      "share one")))
        << schedule;
    EXPECT_THAT(reasons(schedule, 1), IsEmpty());
  }
}

TEST(SharedStreams, OtherPlansOfEightRanksFitOnOneGpu) {
  for (const char* schedule : {"tiles", "slices", "decomposed", "tiles,comm-sms=8,reuse=ack",
                               "tiles,mover=copy-engine,reuse=double"}) {
    EXPECT_THAT(reasons(schedule, 8), IsEmpty()) << schedule;
  }
}

TEST(SharedStreams, StreamsThatDoNotRunAtOnceAreRefused) {
  const Plan plan = plan_of("gemm-rs m=512 n=512 k=512 ranks=8 dtype=bf16", "tiles");
  std::vector<RankProgram> programs(8);
  for (RankProgram& program : programs) program.streams.resize(5);
  EXPECT_THAT(why_not_shared(plan, programs, 8),
              ElementsAre(HasSubstr("8 ranks on a GPU need 40 streams, 32 run at once")));
  EXPECT_THAT(why_not_shared(plan, programs, 6), IsEmpty());
}

}  // namespace
}  // namespace stretto::cuda

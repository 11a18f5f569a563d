// Which wait of a lane held up the task that an error names.
#include "runtime/stuck_wait.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <utility>

#include "stretto/device/signal.h"

namespace stretto::runtime {
namespace {

// Of one rank that computes `m` rows; `body`: what else the plan declares, and its lanes.
Plan plan_of_rows(int m, const std::string& body) {
  return parse_plan(fmt::format(R"(stretto-plan 1
operator ag-gemm m={0} n=64 k=128 ranks=1 dtype=bf16
sms 132
buffer a bf16 {0}x128 input
buffer b bf16 64x128 input
buffer out bf16 {0}x64 output
{1}end
)",
                                m, body));
}

TEST(StuckWait, TheWaitOfALaterPhaseIsFoundBehindTheTasksFirstRange) {
  const Plan plan = plan_of_rows(128, R"(buffer ranges fp32 256x64 local
signals ag 3
lane 0 compute 0
  wait ag.2 >= 1
  wait ag.0 >= 1
  gemm #4 a[0:128,0:64] b[0:64,0:64] -> ranges[0:128,0:64]
  wait ag.1 >= 1
  gemm #4 a[0:128,64:128] b[0:64,64:128] -> ranges[128:256,0:64]
  reduce #4 ranges[0:128,0:64] ranges[128:256,0:64] -> out[0:128,0:64]
  wait ag.2 >= 2
  gemm #5 a[0:128,0:128] b[0:64,0:128] -> out[0:128,0:64]
)");
  const Lane& lane = plan.lanes[0];
  EXPECT_EQ(find_wait(lane, 0, 8, {0, 0}, 4), 1u);
  EXPECT_EQ(find_wait(lane, 0, 8, {0, 1}, 4), 3u);
  EXPECT_EQ(find_wait(lane, 0, 8, {0, 2}, 4), 0u);
  EXPECT_EQ(find_wait(lane, 0, 8, {0, 2}, 5), 6u);
  EXPECT_EQ(find_wait(lane, 4, 6, {0, 1}, 4), std::nullopt);
  EXPECT_EQ(describe(plan, {0, 0, 3, 1, 0, true}, 2'000'000'000),
            "rank 0 compute 0 waited 2000 ms before tile 4 for ag.1: expected 1, seen 0");
}

// A block makes waits of other lanes at its end; what it reports then is theirs.
TEST(StuckWait, TheWaitAtTheEndOfABlockIsOfTheLaneThatHasIt) {
  const Plan plan = plan_of_rows(256, R"(signals ag 2
lane 0 compute 0
  gemm #0 a[0:128,0:128] b[0:64,0:128] -> out[0:128,0:64]
  wait ag.0 >= 1
  wait ag.1 >= 1
lane 0 compute 1
  wait ag.0 >= 1
  gemm #1 a[128:256,0:128] b[0:64,0:128] -> out[128:256,0:64]
  wait ag.1 >= 1
)");
  const cuda::BlockPart part{1, 0, 2, {{cuda::StepKind::wait, 0, 0, 1}}};
  const auto found = [&](int32_t signal, uint32_t tile) {
    const WaitPlace place = find_wait(plan, part, {0, signal}, tile);
    return std::pair(place.lane, place.position);
  };
  EXPECT_EQ(found(0, 1), std::pair(1u, 0u));
  EXPECT_EQ(found(0, device::kAtEnd), std::pair(0u, 1u));
  EXPECT_EQ(describe(plan, {0, 0, 1, 1, 0, true}, 2'000'000'000),
            "rank 0 compute 0 waited 2000 ms at its end for ag.0: expected 1, seen 0");
}

}  // namespace
}  // namespace stretto::runtime

// What a run consists of on GPUs, and that its blocks count runs: eager ones and those of graphs in
// turn, and anew after a run that was aborted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpu/graph.h"
#include "gpu_plans.h"
#include "measure/gpu_check.h"

namespace stretto::runtime {
namespace {

using testing::HasSubstr;

constexpr uint64_t kTimeoutNs = 100'000'000;

class RunKernelsOnGpus : public BrokenRunsOnGpus {
 protected:
  // What rank 0 captures of one run.
  static size_t nodes_of_run(const std::string& op, const std::string& schedule) {
    const Plan plan = plan_here(op + " ranks=2 dtype=bf16", schedule);
    PlanRunner runner(plan, shared_fabric(kRanks), shared_compiler());
    shared_fabric(kRanks).device(0).make_current();
    return cuda::Graph(runner.stream(0), [&] { runner.enqueue(0); }).num_nodes();
  }
};

TEST_F(RunKernelsOnGpus, ARunIsItsKernels) {
  EXPECT_EQ(nodes_of_run("gemm-rs m=1024 n=1024 k=512", "tiles"), 1u);
  EXPECT_EQ(nodes_of_run("gemm-ar m=1024 n=1024 k=512", "tiles"), 1u);
  EXPECT_EQ(nodes_of_run("ag-gemm m=1024 n=1024 k=512", "tiles,comm-sms=8"), 1u);
  // Its GEMM, the sums of its compute lanes and those of its comm lanes.
  EXPECT_EQ(nodes_of_run("gemm-rs m=1024 n=1024 k=512", "tiles,comm-sms=8"), 3u);
  // Beside a copy engine's stream: the ending kernels stay.
  EXPECT_GT(nodes_of_run("gemm-ar m=1024 n=1024 k=512", "tiles,mover=copy-engine"), 2u);
}

// Rank 0 comes too late; the same runner is then as good as new. Three runs and graphs of all
// instances' number leave the blocks at odd and at even counts.
TEST_F(RunKernelsOnGpus, RunsAreCountedAnewAfterAnAbortedOne) {
  const std::pair<const char*, const char*> cases[] = {
      {"gemm-rs", "tiles"},
      {"gemm-rs", "tiles,comm-sms=8,reuse=ack"},
      {"gemm-ar", "tiles"},
      {"ag-gemm", "tiles,comm-sms=8"},
      {"ag-gemm", "tiles,mover=copy-engine,reuse=ack"},
      {"gemm-ar", "decomposed,reuse=double"}};
  fabric::Fabric& fabric = shared_fabric(kRanks);
  for (const auto& [kind, schedule] : cases) {
    SCOPED_TRACE(std::string(kind) + " " + schedule);
    const Plan plan =
        plan_here(std::string(kind) + " m=1024 n=1024 k=512 ranks=2 dtype=bf16", schedule);
    PlanRunner runner(plan, fabric, shared_compiler(), {kTimeoutNs});
    for (int round = 0; round < 2; ++round) {
      GpuCheckOptions options;
      options.runs = 3;
      options.replays = 3;
      const GpuCheckResult result = check_on_gpus(runner, fabric, options);
      EXPECT_TRUE(result.verified()) << result.fault << result.first_wrong;
      EXPECT_THAT(error_of(runner, 4 * kTimeoutNs), HasSubstr("waited 100 ms"));
    }
  }
}

}  // namespace
}  // namespace stretto::runtime

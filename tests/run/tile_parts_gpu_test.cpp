// Reductions of which tiles have rows of several owners, in one kernel a rank: exact on whole
// numbers, with ranks that start at different times, run after run and in graphs.
//
// Estimate for 2 to 8 GPUs and 16 cores, of which half is compiling: 60 s.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

#include "compile_plans.h"
#include "gpu_plans.h"
#include "lower/plan_of.h"
#include "measure/gpu_check.h"
#include "plan_cases.h"

namespace stretto::runtime {
namespace {

class TilePartsOnGpus : public PlanOnGpus {};

std::vector<PlanCase> cases();

// Together, those of so many ranks: one after the other they would take minutes.
void compile_kernels_once(int ranks) {
  static std::set<int> done;
  if (!done.insert(ranks).second) return;
  std::vector<Plan> plans;
  for (const PlanCase& c : cases()) {
    if (c.ranks == ranks && why_not_here(c.op, c.schedule).empty()) {
      plans.push_back(plan_here(c.op, c.schedule));
    }
  }
  std::vector<const Plan*> all;
  for (const Plan& plan : plans) all.push_back(&plan);
  compile_plans(all);
}

TEST_P(TilePartsOnGpus, AreRightRunAfterRun) {
  const auto& [op, schedule, ranks] = GetParam();
  compile_kernels_once(ranks);
  const Plan plan = plan_here(op, schedule);
  for (const cuda::RankProgram& program : cuda::programs_of(plan)) {
    ASSERT_EQ(program.gemms.size(), 1u);
    EXPECT_TRUE(program.moves.empty()) << "a mover would add to the parts";
  }
  PlanRunner runner(plan, shared_fabric(ranks), shared_compiler());
  GpuCheckOptions options;
  options.runs = 8;
  options.replays = 50;
  const GpuCheckResult result = check_on_gpus(runner, shared_fabric(ranks), options);
  EXPECT_EQ(result.fault, "");
  EXPECT_EQ(result.wrong_elements, 0) << result.first_wrong;
  EXPECT_LT(result.worst_error, 1);
  EXPECT_TRUE(result.reproducible);
}

std::vector<PlanCase> cases() {
  std::vector<PlanCase> all;
  for (const int ranks : {2, 4, 8}) {
    const auto add = [&](int shard, const char* dtype, const std::string& schedule, int n = 1088,
                         const char* kind = "gemm-rs") {
      all.push_back({fmt::format("{} m={} n={} k={} ranks={} dtype={}", kind, shard * ranks, n,
                                 512 * ranks, ranks, dtype),
                     schedule + ",comm-sms=0,order=interleaved", ranks});
    };
    // Halves of tiles in one wave and in several, with a long way to the last column.
    for (const char* tile : {"128x128", "128x192", "128x256"}) {
      add(64, "bf16", fmt::format("tiles,tile={}", tile));
      add(64, "bf16", fmt::format("tiles,tile={}", tile), 12288);
    }
    add(64, "fp16", "tiles,tile=128x128,reuse=ack");
    add(64, "bf16", "tiles,tile=128x128,split-k=2");
    add(64, "bf16", "tiles,tile=128x128,split-k=2", 8192);
    // Chunks of 32 columns.
    add(64, "bf16", "tiles,tile=128x96");
    // Few rows, and parts that begin at any.
    for (const int shard : {16, 50, 72, 100}) {
      add(shard, "bf16", "tiles,tile=128x128");
      add(shard, "bf16", "tiles,tile=128x128,split-k=2");
    }
    add(50, "bf16", "tiles,tile=64x128");
    add(72, "bf16", "tiles,tile=128x128", 12288);
    add(160, "bf16", "tiles,tile=128x128", 12288);
    add(160, "bf16", "tiles,tile=256x128", 4096);
    // Whole tiles are shared out, in the same kernel.
    add(64, "bf16", "tiles,tile=128x128", 8192, "gemm-ar");
    add(50, "bf16", "tiles,tile=128x128", 1088, "gemm-ar");
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Gpu, TilePartsOnGpus, testing::ValuesIn(cases_here(cases())),
                         [](const auto& i) { return name_of_case(i); });

}  // namespace
}  // namespace stretto::runtime

// Plans that ranks on shared GPUs are refused. Run with STRETTO_RANKS_A_GPU of 2 to 8.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpu_plans.h"

namespace stretto::runtime {
namespace {

using testing::HasSubstr;

TEST(SharedGpus, RefusalsSayWhatWouldBeRight) {
  if (cuda::ranks_a_gpu() == 1) STRETTO_SKIP("STRETTO_RANKS_A_GPU is not set");
  if (const std::string why = why_not_here(2); !why.empty()) STRETTO_SKIP(why);
  const auto refusal = [](const Plan& plan) -> std::string {
    try {
      PlanRunner(plan, shared_fabric(2), shared_compiler());
    } catch (const UsageError& error) {
      return error.what();
    }
    return "made";
  };
  const std::string op = "gemm-rs m=4096 n=4096 k=512 ranks=2 dtype=bf16";
  EXPECT_THAT(refusal(plan_here(op, "sequential")), HasSubstr("without mover=nccl"));
  const Segment whole = parse_segment(op);
  const Machine machine = default_machine(2);
  const int share = shared_fabric(2).device(0).num_sms();
  EXPECT_THAT(
      refusal(lower(whole, parse_schedule("tiles", whole, machine), machine)),
      HasSubstr(fmt::format(
          "a rank that shares its GPU has {0}: lower it for a machine with sms={0}", share)));
  EXPECT_EQ(refusal(plan_here(op, "tiles")), "made");
}

}  // namespace
}  // namespace stretto::runtime

// Blocks that copy and add in turn: plans for so few SMs that communication blocks send many tiles
// and add some. Copies pass through a mover's ring of twelve stages by other warps than sums, so
// each kind passes over more stages of the other than the ring has.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "gpu_plans.h"
#include "measure/gpu_check.h"

namespace stretto::runtime {
namespace {

constexpr int kSms = 12;

Plan plan_for_few_sms(const std::string& op_text, const std::string& schedule) {
  const Segment op = parse_segment(op_text);
  Machine machine = machine_here(op.ranks);
  machine.sms = std::min(machine.sms, kSms);
  machine.nccl_sms = std::min(machine.nccl_sms, kSms - 1);
  return lower(op, parse_schedule(schedule, op, machine), machine);
}

// The most copies that a communication lane makes before one of its sums.
size_t copies_before_a_sum(const Plan& plan) {
  size_t most = 0;
  for (const Lane& lane : plan.lanes) {
    size_t copies = 0;
    for (const Instr& instr : lane.instrs) {
      if (lane.kind == LaneKind::comm && instr.op == Opcode::copy) ++copies;
      if (lane.kind == LaneKind::comm && instr.op == Opcode::reduce) most = std::max(most, copies);
    }
  }
  return most;
}

class MixedMoversOnGpus : public testing::TestWithParam<int> {};

TEST_P(MixedMoversOnGpus, AreRight) {
  const int ranks = GetParam();
  if (const std::string why = why_not_here(ranks); !why.empty()) STRETTO_SKIP(why);
  for (const char* kind : {"gemm-rs", "gemm-ar"}) {
    // Tiles of a stage each.
    for (const char* schedule : {"tile=64x128,comm-sms=6", "tile=128x64,comm-sms=3,reuse=ack"}) {
      const std::string op = fmt::format("{} m={} n=2048 k={} ranks={} dtype=bf16", kind,
                                         256 * ranks, 128 * ranks, ranks);
      SCOPED_TRACE(op + " " + schedule);
      const Plan plan = plan_for_few_sms(op, std::string("tiles,mover=comm-blocks,") + schedule);
      EXPECT_GT(copies_before_a_sum(plan), 12u);
      PlanRunner runner(plan, shared_fabric(ranks), shared_compiler());
      const GpuCheckResult result = check_on_gpus(runner, shared_fabric(ranks), {});
      EXPECT_EQ(result.fault, "");
      EXPECT_EQ(result.wrong_elements, 0) << result.first_wrong;
      EXPECT_TRUE(result.reproducible);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, MixedMoversOnGpus, testing::Values(2, 4, 8),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace stretto::runtime

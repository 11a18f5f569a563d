// Lowering as a whole: its steps, its errors, what it leaves.
#include "stretto/lower.h"

#include <gmock/gmock.h>

#include "lower/drafts.h"
#include "stretto/error.h"

namespace stretto {
namespace {

const Segment kOperator{kGemmRs, 64, 64, 8, 2, DType::bf16};

TEST(Lower, ShowsTheDraftAfterEveryStep) {
  const Machine machine = small_machine(2);
  std::vector<std::string_view> expected, seen;
  for (const LowerStep& step : lower_steps()) expected.push_back(step.name);
  size_t tasks_after_emit = 0;
  lower(kOperator, parse_schedule("tiles", kOperator, machine), machine,
        [&](const LowerStep& step, const Draft& draft) {
          seen.push_back(step.name);
          EXPECT_TRUE(step.name != "make_lanes" || draft.program.empty());
          if (step.name == "emit_tasks") tasks_after_emit = draft.program.size();
        });
  EXPECT_EQ(seen, expected);
  EXPECT_GT(tasks_after_emit, 0u);
}

TEST(Lower, EveryStepSaysWhyItStandsWhereItStands) {
  for (const LowerStep& step : lower_steps()) EXPECT_FALSE(step.why_here.empty()) << step.name;
}

TEST(Lower, RefusesWithAllReasonsAtOnce) {
  const Machine machine = small_machine(2);
  Schedule schedule = parse_schedule("tiles", kOperator, machine);
  schedule.order = Order::arrival;
  schedule.comm_sms = 1000;
  try {
    lower(kOperator, schedule, machine);
    FAIL() << "an illegal schedule was lowered";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("order=arrival"));
    EXPECT_THAT(error.what(), testing::HasSubstr("comm-sms=1000"));
  }
}

TEST(Lower, LeavesAPlanThatNamesOperatorScheduleAndMachine) {
  const Machine machine = small_machine(2, 6);
  const Schedule schedule = parse_schedule("slices", kOperator, machine);
  const Plan plan = lower(kOperator, schedule, machine);
  EXPECT_EQ(plan.op, kOperator);
  EXPECT_EQ(plan.schedule, to_string(schedule));
  EXPECT_EQ(plan.sms, 6);
  EXPECT_NO_THROW(validate(plan));
}

TEST(Lower, ReuseDecidesTheCopiesOfSymmetricBuffers) {
  for (const auto& [reuse, copies] : {std::pair("double", 2), std::pair("ack", 1)}) {
    const Draft draft =
        draft_of(to_string(kOperator), std::string("tiles,reuse=") + reuse, small_machine(2));
    for (const Buffer& buffer : draft.plan.buffers) {
      EXPECT_EQ(buffer.copies, buffer.role == BufferRole::symmetric ? copies : 1) << buffer.name;
    }
  }
}

TEST(Lower, PartialsTravelInTheirOwnType) {
  const Draft draft = draft_of(to_string(kOperator), "decomposed,partials=fp32", small_machine(2));
  EXPECT_EQ(draft.plan.buffers[buffer_of(draft, "slots")].dtype, DType::fp32);
  EXPECT_EQ(draft.plan.buffers[buffer_of(draft, "part")].dtype, DType::fp32);
  EXPECT_EQ(draft.plan.buffers[buffer_of(draft, "out")].dtype, DType::bf16);
}

}  // namespace
}  // namespace stretto

// What ranks enqueue is proved with the plan that it is for, and what is wrong with it is named.
#include "check/program.h"

#include <fmt/format.h>

#include "check/program_early.h"
#include "check/program_plans.h"
#include "check/program_run.h"
#include "check/text_plan.h"
#include "lower/plan_of.h"
#include "lower/plan_of_operator.h"
#include "tables/plan_limits.h"

namespace stretto {
namespace {

using cuda::RankProgram;
using cuda::Step;
using cuda::StepKind;
using testing::HasSubstr;

// With all streams of a rank in one queue.
CheckReport run_in_one_queue(const Plan& plan, const std::vector<RankProgram>& programs) {
  checker::Findings findings(100);
  const checker::InstrIndex index(plan);
  const checker::Counters counters(plan, index);
  const checker::ProgramPlaces places(plan, programs, findings);
  checker::check_program_run(plan, index, counters, programs, places, findings, 0);
  CheckReport report;
  findings.give(report);
  return report;
}

class ProgramsOfRanks : public testing::TestWithParam<int> {};

TEST_P(ProgramsOfRanks, OfEveryOperatorUnderEveryPresetAreProved) {
  size_t plans = 0;
  for_each_program_plan(GetParam(), [&](const std::string& name, const Plan& plan) {
    const CheckReport report = check(plan);
    EXPECT_TRUE(report.clean()) << name << "\n" << all_messages(report);
    EXPECT_EQ(report.no_program, "") << name;
    const CheckReport in_one = run_in_one_queue(plan, cuda::programs_of(plan));
    EXPECT_TRUE(in_one.clean()) << name << "\n" << all_messages(in_one);
    ++plans;
  });
  EXPECT_GT(plans, 300u);
}

INSTANTIATE_TEST_SUITE_P(Ranks, ProgramsOfRanks, testing::Values(1, 2, 3, 8),
                         [](const auto& test) { return std::to_string(test.param); });

// Streams of rank 0: 0: gemm 0, record 0, gemm 1, wait slots.0, move 0; 1: wait ack.0, await 0,
// copy, notify slots.0.
class Program : public testing::Test {
 protected:
  // The one thing that is wrong.
  Diagnostic found() const {
    CheckReport report;
    report.diagnostics = checker::check_programs(plan_, programs_);
    EXPECT_EQ(report.diagnostics.size(), 1u) << all_messages(report);
    for (const Diagnostic& d : report.diagnostics) {
      EXPECT_FALSE(d.hint.empty());
      return d;
    }
    return {};
  }
  RankProgram& first() { return programs_[0]; }
  std::vector<Step>& steps(size_t stream) { return programs_[0].streams[stream].steps; }
  // As they stand, a stream behind the other.
  void enqueue_streams(const std::vector<uint32_t>& streams) {
    first().order.clear();
    for (const uint32_t s : streams) {
      for (uint32_t i = 0; i < steps(s).size(); ++i) first().order.push_back({s, i});
    }
  }

  Plan plan_ = plan_of("gemm-rs m=512 n=512 k=512 ranks=2 dtype=bf16", "decomposed,tile=128x128");
  std::vector<RankProgram> programs_ = cuda::programs_of(plan_);
};

TEST_F(Program, IsRightAsItIsMade) {
  ASSERT_EQ(steps(0).size(), 5u);
  ASSERT_EQ(steps(1).size(), 4u);
  EXPECT_TRUE(checker::check_programs(plan_, programs_).empty());
}

TEST_F(Program, HasEveryTaskOnce) {
  steps(1)[2].kind = StepKind::notify;
  EXPECT_THAT(checker::check_programs(plan_, programs_).front().message,
              HasSubstr("rank 0 stream 1 step 2 is none that its instruction can be"));
  programs_ = cuda::programs_of(plan_);
  first().gemms[1].pop_back();
  const Diagnostic lost = found();
  EXPECT_EQ(lost.kind, DiagnosticKind::misplaced_instruction);
  EXPECT_THAT(lost.message, HasSubstr("is in no kernel and no step of rank 0's program"));
  programs_ = cuda::programs_of(plan_);
  first().moves[0].push_back(first().gemms[0][0]);
  const Diagnostic twice = found();
  EXPECT_EQ(twice.kind, DiagnosticKind::misplaced_instruction);
  EXPECT_THAT(twice.message, HasSubstr("is made twice: at rank 0 stream 0 step 0 (gemm kernel 0)"));
}

TEST_F(Program, HasNoBoundaryInABlockAndNothingOfAnotherRank) {
  first().gemms[0][0].end = first().gemms[1][0].end;
  first().gemms[1].erase(first().gemms[1].begin());
  EXPECT_THAT(found().message, HasSubstr("has it in a block"));
  programs_ = cuda::programs_of(plan_);
  std::swap(programs_[0].gemms[0], programs_[1].gemms[0]);
  EXPECT_THAT(checker::check_programs(plan_, programs_).front().message,
              HasSubstr("has a block of a lane that its rank lacks"));
}

TEST_F(Program, HasNoWaitInALibrarysKernel) {
  plan_ = plan_of("ag-gemm m=512 n=512 k=512 ranks=2 dtype=bf16", "tiles");
  programs_ = cuda::programs_of(plan_);
  first().needs[0].library = 0;
  EXPECT_THAT(found().message, HasSubstr("multiplies whole products, and awaits and tells nobody"));
}

TEST_F(Program, KeepsTheOrderOfALane) {
  std::swap(steps(1)[2], steps(1)[3]);
  const Diagnostic d = found();
  EXPECT_EQ(d.kind, DiagnosticKind::program_order);
  EXPECT_THAT(d.message, HasSubstr("in rank 0 stream 1 step 2 (notify slots.0@1 += 1) may begin "
                                   "before rank 0 copy 0 instruction 2 (copy #8) has ended in"));
}

TEST_F(Program, KeepsBoundariesByOrderAndEvents) {
  std::swap(steps(0)[0], steps(0)[2]);
  EXPECT_EQ(checker::check_programs(plan_, programs_).front().kind, DiagnosticKind::program_order);
  programs_ = cuda::programs_of(plan_);
  steps(1).erase(steps(1).begin() + 1);  // its await
  enqueue_streams({0, 1});
  const Diagnostic d = found();
  EXPECT_EQ(d.kind, DiagnosticKind::program_order);
  EXPECT_THAT(d.message, HasSubstr("has ended in rank 0 stream 0 step 0 (gemm kernel 0)"));
  EXPECT_THAT(d.hint, HasSubstr("an event should be recorded behind the first"));
}

TEST_F(Program, MakesEveryWaitThatNoEventStandsFor) {
  steps(0).erase(steps(0).begin() + 3);
  enqueue_streams({0, 1});
  const Diagnostic d = found();
  EXPECT_EQ(d.kind, DiagnosticKind::lost_wait);
  EXPECT_EQ(d.signal, "slots.0@0");
  EXPECT_THAT(d.message, HasSubstr("no event of it stands for rank 1 copy 0"));
}

TEST_F(Program, MakesEveryNotifyThatIsAwaited) {
  steps(1).pop_back();
  enqueue_streams({0, 1});
  std::vector<Diagnostic> all = checker::check_programs(plan_, programs_);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].kind, DiagnosticKind::lost_notify);
  EXPECT_EQ(all[0].signal, "slots.0@1");
  EXPECT_EQ(all[1].kind, DiagnosticKind::program_deadlock);
  EXPECT_THAT(all[1].message, HasSubstr("and needs what no program tells"));
}

TEST_F(Program, EnqueuesEveryStepOnceAndEventsInTime) {
  enqueue_streams({1, 0});
  const Diagnostic early = found();
  EXPECT_EQ(early.kind, DiagnosticKind::enqueue_order);
  EXPECT_THAT(early.message, HasSubstr("rank 0 stream 1 step 1 (await of event 0) is enqueued "
                                       "ahead of the event's record"));
  enqueue_streams({0});
  EXPECT_THAT(found().message, HasSubstr("rank 0 stream 1 step 0 (wait ack.0 >= 8 lag 1) is never "
                                         "enqueued"));
  enqueue_streams({0, 1, 1});
  EXPECT_THAT(found().message, HasSubstr("enqueues step 0 of stream 1 where another is the next"));
}

TEST_F(Program, ComesToItsEnd) {
  // Each rank awaits the other's rows ahead of the kernel behind which its own are sent.
  for (RankProgram& program : programs_) {
    std::vector<Step>& main = program.streams[0].steps;
    std::rotate(main.begin(), main.begin() + 3, main.begin() + 4);
  }
  const Diagnostic d = found();
  EXPECT_EQ(d.kind, DiagnosticKind::program_deadlock);
  EXPECT_THAT(d.message,
              HasSubstr("deadlock of 4 streams: rank 0 stream 0 step 0 (wait slots.0 >= 1), where "
                        "rank 0 compute 0"));
  EXPECT_THAT(d.message, HasSubstr("needs rank 1 stream 1 step 1 (await of event 0)"));
}

TEST_F(Program, IsNotHeldUpWhereStreamsShareAQueue) {
  EXPECT_TRUE(run_in_one_queue(plan_, programs_).clean());
  // The wait for the other rank's rows ahead of the copy that it waits for in turn.
  for (RankProgram& program : programs_) {
    std::stable_sort(program.order.begin(), program.order.end());
  }
  EXPECT_TRUE(checker::check_programs(plan_, programs_).empty());
  const CheckReport report = run_in_one_queue(plan_, programs_);
  ASSERT_EQ(report.diagnostics.size(), 1u) << all_messages(report);
  EXPECT_EQ(report.diagnostics[0].kind, DiagnosticKind::program_deadlock);
  EXPECT_THAT(report.diagnostics[0].message,
              HasSubstr("which shares a queue with what is enqueued before it"));
}

TEST_F(Program, RunsNoMoreBlocksAtOnceThanThereAreSms) {
  ASSERT_GT(first().gemms[0].size() * 2, 8u);
  plan_.sms = static_cast<int>(first().gemms[0].size());
  ASSERT_TRUE(checker::check_programs(plan_, programs_).empty());
  // Two kernels of compute lanes side by side.
  const Step second = steps(0)[2];
  steps(0).erase(steps(0).begin() + 2);
  first().streams.push_back({LaneKind::compute, 0, {second}});
  enqueue_streams({0, 1, 2});
  const Diagnostic d = found();
  EXPECT_EQ(d.kind, DiagnosticKind::program_not_resident);
  EXPECT_THAT(d.message, HasSubstr("(gemm kernel 0) of 8 blocks, rank 0 stream 2 step 0 (gemm "
                                   "kernel 1) of 8 blocks"));
}

// Copy engines signal by kernels that need an SM.
TEST_F(Program, LetsNoBlockStayWhereCopyLanesNeedAnSm) {
  plan_.sms = static_cast<int>(first().gemms[1].size());
  first().gemms[1][0].at_end.push_back(steps(0)[3]);
  steps(0).erase(steps(0).begin() + 3);
  enqueue_streams({0, 1});
  const Diagnostic d = found();
  EXPECT_EQ(d.kind, DiagnosticKind::program_not_resident);
  EXPECT_THAT(d.message, HasSubstr("keeps its SM for it"));
  plan_.sms += 1;
  EXPECT_TRUE(checker::check_programs(plan_, programs_).empty());
}

// What kernels read before the one ahead of them has ended.
class EarlyReads : public testing::Test {
 protected:
  void take(const std::string& op, const std::string& schedule) {
    plan_ = plan_of_operator(op, schedule);
    programs_ = cuda::programs_of(plan_);
    ASSERT_EQ(found(), "");
  }
  std::string found() const {
    checker::Findings findings(100);
    checker::check_early_reads(plan_, programs_, findings);
    CheckReport report;
    findings.give(report);
    return all_messages(report);
  }
  // The first pair of neighbours on rank 0's stream; of the second, an instruction.
  template <typename Ahead, typename Behind>
  InstrRef find(const Ahead& is_ahead, const Behind& is_behind) const {
    const std::vector<Step>& steps = programs_[0].streams[0].steps;
    for (size_t i = 1; i < steps.size(); ++i) {
      if (!is_ahead(steps[i - 1]) || !is_behind(steps[i])) continue;
      if (steps[i].kind != StepKind::gemm) return {steps[i].lane, steps[i].position};
      const cuda::BlockPart& part = programs_[0].gemms[steps[i].index].front();
      return {part.lane, part.begin};
    }
    ADD_FAILURE() << "no such neighbours";
    return {};
  }
  static bool is_collective(const Step& step) { return step.kind == StepKind::collective; }
  static bool is_gemm(const Step& step) { return step.kind == StepKind::gemm; }
  const Instr& instr(InstrRef ref) const { return plan_.lanes[ref.lane].instrs[ref.pos]; }
  Region& operand(InstrRef ref, size_t number) {
    return plan_.operands[instr(ref).first_operand + number];
  }

  Plan plan_;
  std::vector<RankProgram> programs_;
};

TEST_F(EarlyReads, OfACombineAreNotOfWhatExpertsMake) {
  take("moe-ep t=64 h=128 f=128 experts=8 k=2 ranks=2 dtype=bf16", "low-latency");
  const InstrRef combine = find(is_gemm, is_collective);
  operand(combine, 1) = operand(combine, 2);  // ids from the rows
  EXPECT_THAT(found(), HasSubstr("early-read: rank 0 nccl 0 instruction"));
}

// Behind products that let it start while the one ahead of them still runs.
TEST_F(EarlyReads, OfACombineAreNotOfWhatTheFirstOfTwoProductsMakes) {
  take("moe-ep t=64 h=128 f=128 experts=8 k=2 ranks=2 dtype=bf16", "low-latency");
  const InstrRef combine = find(is_gemm, is_collective), down = find(is_gemm, is_gemm);
  operand(combine, 1) = operand(down, 0);  // ids from what gate and up make
  EXPECT_THAT(found(), HasSubstr("early-read: rank 0 nccl 0 instruction"));
}

TEST_F(EarlyReads, OfExpertsAreNotOfWhatExpertsMake) {
  take("moe-ep t=64 h=128 f=128 experts=8 k=2 ranks=2 dtype=bf16", "low-latency");
  const InstrRef down = find(is_gemm, is_gemm);
  operand(down, 1) = operand(down, 0);  // weights from the rows
  EXPECT_THAT(found(), HasSubstr("may read"));
}

TEST_F(EarlyReads, OfFewRowsAreOfWeightsThatNobodyWrites) {
  take("mlp m=8 h=64 f=128 ranks=2 dtype=bf16", "few-rows");
  const InstrRef product = find(is_collective, is_gemm);
  for (Lane& lane : plan_.lanes) {
    for (Instr& one : lane.instrs) {
      if (one.op != Opcode::collective || lane.rank != 0) continue;
      plan_.operands[one.first_operand + one.num_reads] = operand(product, 1);
    }
  }
  EXPECT_THAT(found(),
              HasSubstr(fmt::format("early-read: rank 0 compute 0 instruction {}", product.pos)));
}

TEST_F(EarlyReads, OfWhatIsSentAreTheReceiversAlone) {
  take("mlp m=8 h=64 f=128 ranks=2 dtype=bf16", "few-rows");
  RankProgram& program = programs_[0];
  ASSERT_EQ(program.sent.size(), 2u);
  ASSERT_FALSE(program.sent[0]);
  ASSERT_TRUE(program.sent[1]);
  program.sent[0] = program.sent[1];
  EXPECT_THAT(found(), HasSubstr("and never stored"));
  program.sent[0].reset();
  const Step receiver = *program.sent[1];
  const cuda::BlockPart& part = program.gemms[1].front();
  const InstrRef collective{receiver.lane, receiver.position};
  operand(collective, instr(collective).num_reads) = operand({part.lane, part.begin}, 0);
  EXPECT_THAT(found(), HasSubstr("which sends to it, has read it"));
}

// A part is stripes of what the caller gives or gets, and the kernel of few rows has one block.
TEST(ProgramOfPlan, IsThereForPartsOfFewRowsInStripes) {
  for (const char* text :
       {"ag-gemm m=64 n=512 k=256", "gemm-rs m=37 n=512 k=256", "gemm-rs-norm m=64 n=512 k=256",
        "layer m=64 h=512 f=512 heads=8 kv-heads=8 head-dim=64"}) {
    for (const int ranks : {2, 4}) {
      const Operator op = parse_operator(fmt::format("{} ranks={} dtype=bf16", text, ranks));
      const Machine machine = default_machine(ranks);
      const OperatorSchedule parts = parse_schedules("split=2/few-rows", op, machine);
      const Plan plan = lower(op, parts, machine);
      EXPECT_TRUE(plan.any_few_rows());
      const CheckReport report = check(plan);
      EXPECT_TRUE(report.clean()) << text;
      EXPECT_EQ(report.no_program, "") << text;
    }
  }
}

// No kernel multiplies fp32, but what streams would be is proved of such plans, too.
TEST(ProgramOfPlan, IsProvedInFp32) {
  const Plan plan = plan_of("gemm-rs m=512 n=512 k=512 ranks=2 dtype=fp32", "sequential");
  std::vector<cuda::RankProgram> programs = cuda::programs_of(plan);
  EXPECT_TRUE(checker::check_programs(plan, programs).empty());
  programs[0].streams.back().steps.clear();
  EXPECT_FALSE(checker::check_programs(plan, programs).empty());
}

TEST(ProgramOfPlan, IsNotThereForPlansThatNoGpuRuns) {
  const auto why = [](const Plan& plan) { return check(plan).no_program; };
  EXPECT_EQ(why(plan_of("gemm-rs m=512 n=512 k=512 ranks=2 dtype=bf16", "tiles")), "");
  EXPECT_EQ(why(plan_of("gemm-rs m=512 n=512 k=512 ranks=2 dtype=fp32", "tiles")),
            "the GEMM kernel multiplies bf16 and fp16, not fp32: take dtype=bf16 or fp16");
  Plan crowded = plan_of("gemm-rs m=512 n=512 k=512 ranks=2 dtype=bf16", "sequential");
  crowded.sms = 1;
  EXPECT_THAT(why(crowded), HasSubstr("SMs of a rank busy, and is for 1"));
  Plan wide = plan_of("gemm-rs m=512 n=512 k=512 ranks=2 dtype=bf16", "tiles");
  wide.signals.push_back({"many", 1 << 30, 2});
  EXPECT_THAT(why(wide), HasSubstr("counters, GPUs at most 67108864"));
  EXPECT_EQ(why(plan_of("ag-gemm m=37 n=96 k=64 ranks=8 dtype=bf16", "few-rows")).substr(0, 48),
            "of gemms that a library or the kernel of few row");
  // What only tables refuse: the one rule of all who run plans.
  const Plan odd = plan_of("gemm-rs m=37 n=36 k=100 ranks=2 dtype=bf16", "tiles");
  EXPECT_EQ(why(odd), cuda::why_not_on_cuda(odd).front());
  Plan wrong = plan_of("gemm-rs m=512 n=512 k=512 ranks=2 dtype=bf16", "tiles");
  wrong.lanes.back().instrs.pop_back();
  EXPECT_EQ(why(wrong), "the plan itself has faults");
}

}  // namespace
}  // namespace stretto

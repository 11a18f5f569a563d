// Plans without their signals get them back from what their tasks read and write.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <string>
#include <string_view>

#include "stretto/check.h"
#include "stretto/derive.h"
#include "stretto/emulate.h"
#include "stretto/lower.h"

namespace stretto {
namespace {

using testing::HasSubstr;

// As somebody would write it: tasks and boundaries.
Plan without_signals(Plan plan) {
  for (Lane& lane : plan.lanes) {
    std::erase_if(lane.instrs, [](const Instr& instr) { return instr.is_sync(); });
    for (Instr& instr : lane.instrs) instr.fused = false;
  }
  plan.signals.clear();
  return plan;
}

Plan lowered(std::string_view op_text, std::string_view schedule) {
  const Operator op = parse_operator(op_text);
  Machine machine = default_machine(op.ranks);
  machine.sms = 8;
  return lower(op, parse_schedules(schedule, op, machine), machine);
}

void expect_right(const Plan& plan, const std::string& name) {
  const CheckReport report = check(plan);
  EXPECT_TRUE(report.clean()) << name << ": " << report.diagnostics.front().message;
  for (const uint64_t seed : {1, 2, 3}) {
    EmulateOptions options;
    options.seed = seed;
    const EmulateResult result = emulate(plan, options);
    EXPECT_TRUE(result.finished && result.verified && result.faults.empty()) << name;
  }
}

TEST(DeriveSignals, PlansOfTheSpaceAreRightAgain) {
  for (const std::string_view schedule :
       {"tiles,tile=64x64", "slices,tile=64x64", "decomposed,tile=64x64", "sequential,tile=64x64",
        "tiles,tile=64x64,sync=counter", "tiles,tile=64x64,split-k=2"}) {
    for (const std::string_view op : {"ag-gemm m=256 n=128 k=128 ranks=2 dtype=bf16",
                                      "gemm-rs m=256 n=128 k=512 ranks=4 dtype=bf16",
                                      "gemm-ar m=256 n=128 k=256 ranks=2 dtype=bf16"}) {
      const std::string name = std::string(op) + ", " + std::string(schedule);
      const Plan plan = lowered(op, schedule);
      const Plan derived = derive_signals(without_signals(plan));
      expect_right(derived, name);
      const Plan read = parse_plan(print(derived));
      EXPECT_EQ(print(read), print(derived)) << name;
    }
  }
}

TEST(DeriveSignals, SeveralProductsAreRightAgain) {
  for (const std::string_view schedule : {"tiles,tile=64x64", "tiles,tile=64x64/down:slices"}) {
    const Plan plan = lowered("mlp m=256 h=128 f=256 ranks=2 dtype=bf16", schedule);
    expect_right(derive_signals(without_signals(plan)), std::string(schedule));
  }
}

// What lowering knows of the order is in the data: the same waits come out.
TEST(DeriveSignals, AreThoseOfLowering) {
  const Plan plan =
      lowered("gemm-rs m=256 n=128 k=256 ranks=4 dtype=bf16", "tiles,tile=64x64,comm-sms=2");
  const CheckReport before = check(plan), after = check(derive_signals(without_signals(plan)));
  EXPECT_EQ(after.waits, before.waits);
  EXPECT_EQ(after.notifies, before.notifies);
}

constexpr std::string_view kHead =
    "stretto-plan 2\noperator gemm-rs m=64 n=64 k=128 ranks=2 dtype=bf16\nsms 8\n"
    "buffer x bf16 64x64 input\nbuffer y bf16 64x64 local\nbuffer z bf16 64x64 local\n";

Plan by_hand(const std::string& lanes) { return parse_plan(std::string(kHead) + lanes + "end\n"); }

std::string refusal(const std::string& lanes, const std::string& head = "") {
  try {
    derive_signals(by_hand(head + lanes));
  } catch (const UnorderedPlan& error) {
    return error.what();
  }
  return "nothing was refused";
}

TEST(DeriveSignals, AReaderOnAnotherLaneWaitsForTheLastWrite) {
  const Plan plan =
      derive_signals(by_hand("lane 0 comm 0\n copy #0 x[0:32,0:64] -> y[0:32,0:64]\n"
                             " copy #1 y[0:32,0:64] -> y[32:64,0:64]\n"
                             " copy #2 x[32:64,0:64] -> y[0:32,0:64]\n"
                             "lane 0 comm 1\n copy #3 y[0:32,0:64] -> z[0:32,0:64]\n"));
  EXPECT_THAT(print(plan), HasSubstr("y[0:32,0:64]\n  notify y.0@0 += 1\n\nlane 0 comm 1\n"
                                     "  wait y.0 >= 1\n  copy #3"));
}

// A fraction of a second is enough; the cube of tasks takes minutes.
TEST(DeriveSignals, OfALaneThatWritesOnePlaceAgainAndAgainTakeNoCubeOfTime) {
  constexpr int kTurns = 8000;
  std::string text = fmt::format("buffer w bf16 {}x64 local\nlane 0 comm 0\n", kTurns);
  for (int i = 0; i < kTurns; ++i) {
    text += fmt::format("  copy x[0:1,0:64] -> y[0:1,0:64]\n  copy y[0:1,0:64] -> w[{}:{},0:64]\n",
                        i, i + 1);
  }
  const Plan plan = by_hand(text);
  const std::clock_t begin = std::clock();
  derive_signals(plan);
  EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, 20);
}

TEST(DeriveSignals, TwoLanesThatWriteOnePlaceAreRefused) {
  EXPECT_EQ(refusal("lane 0 comm 0\n copy #0 x[0:64,0:64] -> y[0:64,0:64]\n"
                    "lane 0 comm 1\n copy #1 x[0:32,0:64] -> y[32:64,0:64]\n"),
            "rank 0 comm 0 instruction 0 (copy #0) and rank 0 comm 1 instruction 0 (copy #1) both "
            "write y@0[32:64,0:64], and nothing says which comes first; let one lane write it, or "
            "give each a place of its own");
}

TEST(DeriveSignals, AValueThatNobodyCanReadIsRefused) {
  EXPECT_THAT(refusal("lane 0 comm 0\n copy #0 x[0:64,0:64] -> y[0:64,0:64]\n"
                      " copy #1 x[0:32,0:64] -> y[0:32,0:64]\n"
                      "lane 0 comm 1\n copy #2 y[0:64,0:64] -> z[0:64,0:64]\n"),
              HasSubstr("instruction 1 (copy #1) overwrites y@0[0:32,0:64], which rank 0 comm 0 "
                        "instruction 0 (copy #0) has written, before its lane has read it"));
}

TEST(DeriveSignals, ACircleIsRefused) {
  const std::string said = refusal(
      "lane 0 comm 0\n copy #0 z[0:32,0:64] -> y[0:32,0:64]\n"
      " copy #1 x[0:32,0:64] -> y[32:64,0:64]\n"
      "lane 0 comm 1\n copy #2 y[32:64,0:64] -> z[0:32,0:64]\n");
  EXPECT_THAT(said, HasSubstr("which comes after it by the order of lanes"));
  EXPECT_THAT(said, HasSubstr("rank 0 comm 0 instruction"));
  EXPECT_THAT(said, HasSubstr("rank 0 comm 1 instruction 0 (copy #2)"));
}

TEST(DeriveSignals, SignalsThatAreThereAreRefused) {
  EXPECT_THAT(refusal("lane 0 comm 0\n copy #0 x[0:64,0:64] -> y[0:64,0:64]\n notify y.0@0 += 1\n",
                      "signals y 1\n"),
              HasSubstr("rank 0 comm 0 has 'notify y.0@0 += 1', and waits and notifies are to be "
                        "derived; remove all of them"));
  EXPECT_THAT(refusal("lane 0 comm 0\n copy #0 x[0:64,0:64] -> y[0:64,0:64]\n", "signals y 1\n"),
              HasSubstr("signals y are declared"));
}

TEST(DeriveSignals, BoundariesThatDifferAreRefused) {
  EXPECT_EQ(refusal("lane 0 compute 0\n boundary 0\nlane 0 compute 1\n boundary 1\n"),
            "rank 0 compute 0 and rank 0 compute 1 have different boundaries; the compute lanes of "
            "a rank list the same ones in the same order");
}

TEST(DeriveSignals, AReadOfAnotherRanksIsRefused) {
  EXPECT_THAT(refusal("lane 0 comm 0\n copy #0 y@1[0:64,0:64] -> z[0:64,0:64]\n"
                      " copy #1 z[0:64,0:64] -> z@1[0:64,0:64]\n"
                      "lane 1 comm 0\n copy #0 x[0:64,0:64] -> y[0:64,0:64]\n"),
              HasSubstr("rank 0 comm 0 instruction 0 reads y@1[0:64,0:64] of another rank: let "
                        "rank 1 push it"));
}

TEST(DeriveSignals, AnOutputThatNothingIsKnownOfIsRefused) {
  EXPECT_THAT(refusal("lane 0 comm 0\n copy #0 x[0:64,0:64] -> o@1[0:64,0:64]\n",
                      "buffer o bf16 64x64 output\n"),
              HasSubstr("rank 0 comm 0 instruction 0 writes o@1[0:64,0:64], and nothing that it "
                        "waits for says that rank 1's run has begun"));
}

TEST(DeriveSignals, ARegionOutsideItsBufferIsRefused) {
  EXPECT_THAT(refusal("lane 0 comm 0\n copy #0 x[0:64,0:64] -> y[1:65,0:64]\n"),
              HasSubstr("(copy #0) has y@0[1:65,0:64], but y has 64 rows and 64 columns"));
}

}  // namespace
}  // namespace stretto

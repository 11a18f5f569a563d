// Plans made in memory can have faults that no text can express.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "plan/sample.h"
#include "stretto/error.h"

namespace stretto {
namespace {

using testing::HasSubstr;

std::string refusal(const std::function<void(Plan&)>& damage) {
  Plan plan = parse_plan(kSampleText);
  damage(plan);
  try {
    validate(plan);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "accepted";
}

Instr& gemm(Plan& plan) { return plan.lanes[0].instrs[1]; }

TEST(Validate, AcceptsWhatWasParsed) {
  EXPECT_EQ(refusal([](Plan&) {}), "accepted");
}

TEST(Validate, RegionsPointAtBuffersRanksAndAscend) {
  EXPECT_EQ(refusal([](Plan& p) { p.operands[gemm(p).first_operand].buffer = 9; }),
            "rank 0 compute 0 instruction 1 (gemm): expected one of 5 buffers, found number 9");
  EXPECT_THAT(refusal([](Plan& p) { p.operands[gemm(p).first_operand].rank = 2; }),
              HasSubstr("expected a rank below 2, found a@2[0:2,0:3]"));
  EXPECT_THAT(refusal([](Plan& p) { p.operands[gemm(p).first_operand].row0 = -1; }),
              HasSubstr("expected ascending rows and columns, found a@0[-1:2,0:3]"));
  EXPECT_THAT(refusal([](Plan& p) { p.operands[gemm(p).first_operand].col0 = 4; }),
              HasSubstr("expected ascending rows and columns"));
}

TEST(Validate, OperandsAreThere) {
  EXPECT_THAT(refusal([](Plan& p) { p.operands.pop_back(); }),
              HasSubstr("rank 1 nccl 0 instruction 3 (deliver): expected operands among"));
  EXPECT_THAT(refusal([](Plan& p) { gemm(p).first_operand = UINT32_MAX; }),
              HasSubstr("expected operands among"));
}

TEST(Validate, SignalsAreDeclared) {
  EXPECT_THAT(refusal([](Plan& p) { p.lanes[0].instrs[2].signal.array = 7; }),
              HasSubstr("(notify): expected one of 2 signal arrays, found number 7"));
  EXPECT_THAT(refusal([](Plan& p) { p.lanes[0].instrs[2].signal.index = -1; }),
              HasSubstr("expected a signal of slots from 0 to 3, found -1"));
  EXPECT_THAT(refusal([](Plan& p) { p.lanes[0].instrs[2].rank = 2; }),
              HasSubstr("expected a rank below 2, found 2"));
  EXPECT_THAT(refusal([](Plan& p) { p.lanes[0].instrs[2].amount = 0; }),
              HasSubstr("expected an amount of at least 1, found 0"));
}

TEST(Validate, DeclarationsHaveNamesOnce) {
  EXPECT_THAT(refusal([](Plan& p) { p.buffers[1].name = p.buffers[0].name; }),
              HasSubstr("expected buffers of different names, found a twice"));
  EXPECT_THAT(refusal([](Plan& p) { p.buffers[1].name = "two words"; }),
              HasSubstr("expected a buffer's name, found 'two words'"));
  EXPECT_THAT(refusal([](Plan& p) { p.signals[1].name = ""; }),
              HasSubstr("expected a signal array's name, found ''"));
  EXPECT_THAT(refusal([](Plan& p) { p.signals[1].copies = 0; }),
              HasSubstr("expected at least one copy of signals ack, found 0"));
  EXPECT_THAT(refusal([](Plan& p) { p.buffers[0].rows = 0; }),
              HasSubstr("expected buffer a to have rows and columns, found 0x3"));
}

TEST(Validate, TheHeaderIsSound) {
  EXPECT_THAT(refusal([](Plan& p) { p.op.ranks = 0; }), HasSubstr("ranks is 0"));
  EXPECT_THAT(refusal([](Plan& p) { p.sms = 0; }), HasSubstr("expected at least one SM, found 0"));
  EXPECT_EQ(refusal([](Plan& p) { p.run_of = 5; }),
            "expected a run of fewer rows than its plan's, found 5 of 5");
  EXPECT_THAT(refusal([](Plan& p) { p.run_of = 6; }),
              HasSubstr("expected a plan of its own, without run-of 6, since no run of fewer rows "
                        "is as this one: collectives move whole pieces, as that of rank 1 nccl 0"));
  EXPECT_EQ(refusal([](Plan& p) { p.library_algorithm = 1; }),
            "expected no library's algorithm, found 1");
  EXPECT_EQ(refusal([](Plan& p) {
              p.library_gemms = true;
              p.library_algorithm = 8;
            }),
            "expected a library's algorithm from 0 to 7, found 8");
  EXPECT_EQ(refusal([](Plan& p) {
              p.library_gemms = true;
              p.library_algorithm = 7;
            }),
            "accepted");
  EXPECT_EQ(refusal([](Plan& p) { p.library_kernels = {{1, 7}}; }), "accepted");
  EXPECT_EQ(refusal([](Plan& p) {
              p.library_kernels = {{1, 8}};
            }),
            "expected a library's algorithm from 0 to 7, found 8");
  EXPECT_EQ(refusal([](Plan& p) {
              p.library_kernels = {{-1, 0}};
            }),
            "expected kernels of a library in ascending order, found one behind -1 boundaries");
  EXPECT_EQ(refusal([](Plan& p) {
              p.library_kernels = {{1, 0}, {1, 0}};
            }),
            "expected kernels of a library in ascending order, found one behind 1 boundary");
  EXPECT_EQ(refusal([](Plan& p) {
              p.library_kernels = {{0, 0}};
            }),
            "expected gemms of compute lanes behind 0 boundaries, found none");
  EXPECT_EQ(refusal([](Plan& p) {
              p.library_gemms = true;
              p.library_kernels = {{1, 0}};
            }),
            "expected 'gemm library' of all kernels or of some, found both");
  EXPECT_EQ(refusal([](Plan& p) { p.library_gemms = p.few_rows_gemms = true; }),
            "expected 'collectives low-latency' with 'gemm few-rows', which sends to these, found "
            "none");
  EXPECT_EQ(refusal([](Plan& p) {
              p.low_latency_collectives = true;
              p.library_kernels = {{1, 3, true}};
            }),
            "expected no library's algorithm of 'gemm few-rows', found 3");
  EXPECT_EQ(refusal([](Plan& p) { p.low_latency_collectives = p.few_rows_gemms = true; }),
            "expected few rows of all kernels to be said with library_gemms, found them alone");
  EXPECT_THAT(refusal([](Plan& p) { p.schedule = "two\nlines"; }),
              HasSubstr("expected a schedule of one printable line"));
  EXPECT_THAT(refusal([](Plan& p) { p.schedule = "x ; y"; }),
              HasSubstr("expected a schedule of one printable line"));
}

TEST(Validate, BoundariesAndCollectivesHaveNumbers) {
  EXPECT_THAT(refusal([](Plan& p) { p.lanes[0].instrs[0].id = -1; }),
              HasSubstr("(boundary): expected a boundary's number, found -1"));
  EXPECT_THAT(refusal([](Plan& p) { p.lanes[3].instrs[0].id = -1; }),
              HasSubstr("(collective): expected a collective's number, found -1"));
}

TEST(Validate, RegionBoundsAreTheCheckersToReport) {
  std::string text(kSampleText);
  const std::string from = "wait ack.0 >= 1 lag 2\n";
  text.replace(text.find(from), from.size(), from + "  deliver out[0:900,0:900]\n");
  EXPECT_NO_THROW(validate(parse_plan(text)));
}

}  // namespace
}  // namespace stretto

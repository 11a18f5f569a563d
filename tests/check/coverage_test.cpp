// Every read has a writer, every output is whole and in place when the run ends.
#include "check/text_plan.h"
#include "stretto/emulate.h"
#include "stretto/error.h"

namespace stretto {
namespace {

using testing::HasSubstr;

constexpr std::string_view kBuffers =
    "buffer x fp32 8x8 input\n"
    "buffer part fp32 8x8 local\n"
    "buffer out fp32 8x8 output\n"
    "signals s 2\n";

TEST(Coverage, ReadsOfWhatNobodyWritesNameTheHole) {
  const Diagnostic d = expect_only(
      check_text(1, std::string(kBuffers) + "lane 0 compute 0\n"
                                            "  copy x[0:8,0:6] -> part[0:8,0:6]\n"
                                            "  copy #4 part[0:8,0:8] -> out[0:8,0:8]\n"),
      DiagnosticKind::never_written);
  EXPECT_EQ(d.where, (InstrRef{0, 1}));
  EXPECT_EQ(d.tile, 4);
  EXPECT_THAT(d.message, HasSubstr("reads part@0[0:8,0:8], but nobody writes part@0[0:8,6:8]"));
}

TEST(Coverage, OutputsAreWrittenCompletelyOnEveryRank) {
  const Diagnostic d =
      expect_only(check_text(2, std::string(kBuffers) + "lane 0 compute 0\n"
                                                        "  copy x[0:8,0:8] -> out[0:8,0:8]\n"
                                                        "lane 1 compute 0\n"
                                                        "  copy x[0:4,0:8] -> out[0:4,0:8]\n"
                                                        "  copy x[0:2,0:8] -> out[6:8,0:8]\n"),
                  DiagnosticKind::unwritten_output);
  EXPECT_FALSE(d.where) << "no lane of the rank is to blame";
  EXPECT_EQ(d.buffer, 2);
  EXPECT_THAT(d.message, HasSubstr("out@1[4:6,0:8]"));
}

TEST(Coverage, OutputsOfARankWithoutLanesAreMissedToo) {
  const Diagnostic d = expect_only(check_text(1, kBuffers), DiagnosticKind::unwritten_output);
  EXPECT_FALSE(d.where);
  EXPECT_EQ(d.buffer, 2);
  EXPECT_THAT(d.message, HasSubstr("out@0[0:8,0:8]"));
}

constexpr std::string_view kInputs =
    "buffer a fp32 64x48 input\n"
    "buffer b fp32 96x48 input\n";

// gemm-rs of 2 ranks and 64 x 96 rows and columns gives each 32 x 96.
TEST(Coverage, APlanHasItsOperatorsOutput) {
  const auto check_out = [](const std::string& buffer, const std::string& part) {
    std::string body = std::string(kInputs) + "buffer x fp32 64x96 input\n" + buffer + "\n";
    for (const char* rank : {"0", "1"}) {
      body += std::string("lane ") + rank + " compute 0\n";
      if (!part.empty()) body += "  copy x" + part + " -> out" + part + "\n";
    }
    return check(text_plan(2, body));
  };
  expect_clean(check_out("buffer out fp32 32x96 output sharded=64", "[0:32,0:96]"));

  const auto kind = DiagnosticKind::unwritten_output;
  for (const char* none : {"", "buffer out fp32 32x96 local"}) {
    const Diagnostic d = expect_only(check_out(none, ""), kind);
    EXPECT_THAT(d.message, HasSubstr("no task writes the output of gemm-rs m=64"));
    EXPECT_THAT(d.message, HasSubstr("no output buffer named out"));
    EXPECT_THAT(d.hint, HasSubstr("32 x 96 fp32"));
    EXPECT_EQ(d.buffer.has_value(), *none != '\0');
  }
  Diagnostic d =
      expect_only(check_out("buffer out fp32 32x64 output sharded=64", "[0:32,0:64]"), kind);
  EXPECT_THAT(d.message, HasSubstr("out on rank 0 is 32 x 64 fp32, but gemm-rs m=64"));
  EXPECT_THAT(d.message, HasSubstr("gives 32 x 96 fp32 there"));
  d = expect_only(check_out("buffer out fp32 28x96 output", "[0:28,0:96]"), kind);
  EXPECT_THAT(d.message, HasSubstr("out on rank 0 is 28 x 96 fp32"));
  d = check_out("buffer out fp32 32x96 output sharded=60", "[0:28,0:96]").diagnostics.at(0);
  EXPECT_THAT(d.message, HasSubstr("out on rank 1 is 28 x 96 fp32"));
  d = expect_only(check_out("buffer out fp16 32x96 output sharded=64", "[0:32,0:96]"), kind);
  EXPECT_THAT(d.message, HasSubstr("out on rank 0 is 32 x 96 fp16"));
  // It is declared, but only part of it is written.
  d = check_out("buffer out fp32 32x96 output sharded=64", "").diagnostics.at(0);
  EXPECT_THAT(d.message, HasSubstr("no task writes out@0[0:32,0:96]"));
}

// A run refuses it in the same words.
TEST(Coverage, APlanHasItsOperatorsInputs) {
  const auto with = [](std::string_view a, std::string_view other) {
    std::string inputs(kInputs);
    inputs.replace(inputs.find(a), a.size(), other);
    const Plan plan = text_plan(2, inputs +
                                       "buffer out fp32 32x96 output sharded=64\n"
                                       "buffer x fp32 32x96 input\n"
                                       "lane 0 compute 0\n  copy x[0:32,0:96] -> out[0:32,0:96]\n"
                                       "lane 1 compute 0\n  copy x[0:32,0:96] -> out[0:32,0:96]\n");
    std::string refused = "accepted";
    try {
      emulate(plan);
    } catch (const UsageError& error) {
      refused = error.what();
    }
    return std::pair(check(plan), refused);
  };
  const auto [right, accepted] = with("64x48", "64x48");
  expect_clean(right);
  EXPECT_EQ(accepted, "accepted");
  struct Case {
    std::string_view a, other, says;
  };
  for (const auto& [a, other, says] :
       {Case{"64x48", "65x48", "buffer a on rank 0 is 65 x 48 fp32, but gemm-rs m=64"},
        Case{"64x48", "64x96", "has 64 x 48 fp32 there"},
        Case{"96x48 input", "96x48 input sharded=97", "buffer b on rank 1 is 1 x 48 fp32"},
        Case{"b fp32", "b fp16", "buffer b on rank 0 is 96 x 48 fp16"},
        Case{"buffer a fp32 64x48 input", "buffer a fp32 64x48 local", "an input buffer named a"},
        Case{"buffer b ", "buffer c ", "a plan that runs needs an input buffer named b"}}) {
    const auto [report, refused] = with(a, other);
    const Diagnostic d = expect_only(report, DiagnosticKind::wrong_input);
    EXPECT_THAT(d.message, HasSubstr(std::string(says)));
    EXPECT_EQ(d.message, refused);
  }
}

// Regions are those of a whole block of tokens; which of its rows are there only ids say.
TEST(Coverage, RowsThatATaskTakesWithoutIdsAreThereWithoutThem) {
  constexpr std::string_view kHead =
      "stretto-plan 2\noperator combine t=8 h=16 experts=4 k=1 "
      "ranks=2 dtype=bf16\ncollectives low-latency\nsms 8\n";
  constexpr std::string_view kBuffers =
      "buffer d bf16 8x16 input\nbuffer ids i32 8x1 input\n"
      "buffer weights fp32 4x1 input sharded=8\nbuffer y bf16 4x16 output sharded=8\n";
  const auto report_of = [&](const std::string& more, const std::string& tasks) {
    std::string text = std::string(kHead) + std::string(kBuffers) + more;
    for (const char* rank : {"0", "1"}) {
      const std::string rows = *rank == '0' ? "0:4" : "4:8";
      std::string own = tasks;
      for (size_t at = 0; (at = own.find("OWN", at)) != std::string::npos;) {
        own.replace(at, 3, rows);
      }
      text += std::string("\nlane ") + rank + " compute 0\n\nlane " + rank + " nccl 0\n" + own;
    }
    return check(parse_plan(text + "end\n"));
  };
  const std::string sums =
      "  collective combine 1 experts=4 weights[0:4,0:1] ids[0:8,0:1] d[0:8,0:16] -> y[0:4,0:16]\n";
  expect_clean(report_of("", sums));

  const std::string gathered =
      "buffer x bf16 8x16 local\nbuffer xi i32 8x1 local\nbuffer xw fp32 8x1 local\n";
  const std::string sent =
      "  collective dispatch 0 experts=4 d[OWN,0:16] ids[OWN,0:1] weights[0:4,0:1] -> "
      "x[0:8,0:16] xi[0:8,0:1] xw[0:8,0:1]\n";
  const std::string of_sent =
      "  collective combine 1 experts=4 xw[0:8,0:1] xi[0:8,0:1] x[0:8,0:16] -> y[0:4,0:16]\n";
  CheckReport report = report_of(gathered, sent + of_sent);
  ASSERT_EQ(report.diagnostics.size(), 2u) << all_messages(report);
  EXPECT_EQ(report.diagnostics[1].kind, DiagnosticKind::never_written);
  EXPECT_THAT(report.diagnostics[1].message,
              HasSubstr("rank 1 nccl 0 instruction 0 (dispatch 0) reads all of d@1[4:8,0:16], but "
                        "nobody writes rows of choices whose expert another rank has"));

  const std::string own = "buffer r bf16 4x16 input\n";
  const std::string of_own =
      "  collective dispatch 0 experts=4 r[0:4,0:16] ids[OWN,0:1] weights[0:4,0:1] -> "
      "x[0:8,0:16] xi[0:8,0:1] xw[0:8,0:1]\n";
  expect_clean(report_of(gathered + own, of_own + of_sent));
  const std::string of_ids =
      "  collective dispatch_all 0 experts=4 r[0:4,0:16] ids[OWN,0:1] -> xi[0:8,0:1] "
      "x[0:8,0:16]\n";
  const std::string of_all = "  collective all_reduce 1 x[OWN,0:16] -> y[0:4,0:16]\n";
  for (const std::string& sends : {of_own, of_ids}) {
    report = report_of(gathered + own, sends + of_all);
    ASSERT_EQ(report.diagnostics.size(), 2u) << all_messages(report);
    EXPECT_THAT(report.diagnostics[0].message,
                HasSubstr("(all_reduce 1) reads all of x@0[0:4,0:16], but nobody writes rows of "
                          "tokens that choose no expert of the rank"));
    EXPECT_THAT(report.diagnostics[0].hint, HasSubstr("by ids or tables of choices"));
  }
}

TEST(Coverage, TermsOfSomeTokensAreAddedByTheirIds) {
  const auto report_of = [](const std::string& sum) {
    return check_text(1,
                      "buffer d fp32 8x8 input\nbuffer ids i32 4x2 input\n"
                      "buffer weights fp32 4x2 input\nbuffer terms fp32 4x8 local\n"
                      "buffer out fp32 4x8 output\nlane 0 compute 0\n"
                      "  combine experts=4 weights[0:4,0:2] ids[0:4,0:2] d[0:8,0:8] -> "
                      "terms[0:4,0:8]\n" +
                          sum);
  };
  expect_clean(report_of("  merge experts=4 ids[0:4,0:2] terms[0:4,0:8] -> out[0:4,0:8]\n"));
  const Diagnostic d = expect_only(report_of("  copy terms[0:4,0:8] -> out[0:4,0:8]\n"),
                                   DiagnosticKind::never_written);
  EXPECT_THAT(d.message, HasSubstr("(copy) reads all of terms@0[0:4,0:8], but nobody writes rows "
                                   "of tokens that have none where the terms are made"));
  EXPECT_THAT(d.hint, HasSubstr("merge"));
}

TEST(Coverage, OnlyTheRowsThatAShardHasCount) {
  const std::string_view ragged =
      "buffer x fp32 8x8 input\n"
      "buffer out fp32 8x8 output sharded=12\n"
      "lane 0 compute 0\n"
      "  copy x[0:8,0:8] -> out[0:8,0:8]\n"
      "lane 1 compute 0\n"
      "  copy x[0:4,0:8] -> out[0:4,0:8]\n";
  expect_clean(check_text(2, ragged));
  std::string beyond(ragged);
  beyond.replace(beyond.rfind("x[0:4,0:8] -> out[0:4,0:8]"), 26, "x[0:6,0:8] -> out[0:6,0:8]");
  const Diagnostic d = expect_only(check_text(2, beyond), DiagnosticKind::out_of_bounds);
  EXPECT_THAT(d.message, HasSubstr("out@1[0:6,0:8], but rank 1 has 4 x 8 of out"));
}

TEST(Coverage, RemoteWritesOfAnOutputArriveBeforeTheRunEnds) {
  // Each rank writes the other's output, after the other's first task of this run (its caller is
  // through with the old output), and delivers what it gets.
  const std::string head =
      "buffer x fp32 8x8 input\n"
      "buffer out fp32 8x8 output\n"
      "signals go 1\n"
      "signals s 1\n";
  auto lanes = [](int me, int peer, const std::string& go, const std::string& deliver) {
    const std::string m = std::to_string(me), p = std::to_string(peer);
    return "lane " + m + " compute 0\n  notify go.0@" + p + " += 1\n" + go +
           "  copy #5 x[0:8,0:8] -> out@" + p + "[0:8,0:8]\n  notify s.0@" + p + " += 1\n" +
           deliver;
  };
  const std::string go = "  wait go.0 >= 1\n";
  const std::string deliver = "  wait s.0 >= 1\n  deliver out[0:8,0:8]\n";
  expect_clean(check_text(2, head + lanes(0, 1, go, deliver) + lanes(1, 0, go, deliver)));

  Diagnostic d = expect_only(check_text(2, head + lanes(0, 1, go, deliver) + lanes(1, 0, go, "")),
                             DiagnosticKind::undelivered_output);
  EXPECT_EQ(d.tile, 5);
  EXPECT_THAT(d.message,
              HasSubstr("rank 0 compute 0 instruction 2 (copy #5) writes out@1[0:8,0:8]"));

  d = expect_only(check_text(2, head + lanes(0, 1, "", deliver) + lanes(1, 0, go, deliver)),
                  DiagnosticKind::overwrite_unread);
  EXPECT_THAT(d.message, HasSubstr("while the caller still reads the output of 1 run before"));
}

}  // namespace
}  // namespace stretto

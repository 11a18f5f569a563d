// Every read has a writer, every output is whole and in place when the run ends.
#include "check/text_plan.h"

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

// gemm-rs of 2 ranks and 64 x 96 rows and columns gives each 32 x 96.
TEST(Coverage, APlanHasItsOperatorsOutput) {
  const auto check_out = [](const std::string& buffer, const std::string& part) {
    std::string body = "buffer x fp32 64x96 input\n" + buffer + "\n";
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

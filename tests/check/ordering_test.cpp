// Reads and writes of one run.
#include <fmt/format.h>

#include "check/text_plan.h"

namespace stretto {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::string_view kBuffers =
    "buffer x fp32 8x8 input\n"
    "buffer part fp32 8x8 local\n"
    "buffer out fp32 8x8 output\n"
    "signals s 2\n";

CheckReport check_lanes(std::string_view lanes) {
  return check_text(1, std::string(kBuffers) + std::string(lanes));
}

TEST(Ordering, ANotifyAndAWaitOrderTwoLanes) {
  expect_clean(
      check_lanes("lane 0 compute 0\n"
                  "  copy #7 x[0:8,0:8] -> part[0:8,0:8]\n"
                  "  notify s.0@0 += 1\n"
                  "lane 0 comm 0\n"
                  "  wait s.0 >= 1\n"
                  "  copy #7 part[0:8,0:8] -> out[0:8,0:8]\n"));
}

TEST(Ordering, ReadsWithoutAWaitAreReportedWithBothPartiesAndAHint) {
  const Diagnostic d = expect_only(check_lanes("lane 0 compute 0\n"
                                               "  copy #7 x[0:8,0:8] -> part[0:8,0:8]\n"
                                               "  notify s.0@0 += 1\n"
                                               "lane 0 comm 0\n"
                                               "  copy #9 part[0:8,0:8] -> out[0:8,0:8]\n"),
                                   DiagnosticKind::read_before_write);
  EXPECT_EQ(d.where, (InstrRef{1, 0}));
  EXPECT_EQ(d.other, (InstrRef{0, 0}));
  EXPECT_EQ(d.tile, 9);
  EXPECT_EQ(d.signal, "s.0@0");
  EXPECT_EQ(d.message,
            "rank 0 comm 0 instruction 0 (copy #9) reads part@0[0:8,0:8], which rank 0 compute 0 "
            "instruction 0 (copy #7) writes without an order between them");
  EXPECT_EQ(d.hint, "rank 0 comm 0 should wait for s.0@0 before instruction 0");
  EXPECT_THAT(d.also, ElementsAre(InstrRef{0, 1})) << "the notify";
}

TEST(Ordering, AWaitBehindTheReadOrANotifyBeforeTheWriteIsTooWeak) {
  Diagnostic d = expect_only(check_lanes("lane 0 compute 0\n"
                                         "  copy x[0:8,0:8] -> part[0:8,0:8]\n"
                                         "  notify s.0@0 += 1\n"
                                         "lane 0 comm 0\n"
                                         "  copy part[0:8,0:8] -> out[0:8,0:8]\n"
                                         "  wait s.0 >= 1\n"),
                             DiagnosticKind::read_before_write);
  d = expect_only(check_lanes("lane 0 compute 0\n"
                              "  notify s.0@0 += 1\n"
                              "  copy x[0:8,0:8] -> part[0:8,0:8]\n"
                              "lane 0 comm 0\n"
                              "  wait s.0 >= 1\n"
                              "  copy part[0:8,0:8] -> out[0:8,0:8]\n"),
                  DiagnosticKind::read_before_write);
  EXPECT_THAT(d.hint, HasSubstr("should notify a counter of rank 0 after instruction 1"));
}

TEST(Ordering, ManyReadsOfOneCauseAreOneReport) {
  std::string lanes = "lane 0 compute 0\n";
  std::string reader = "lane 0 comm 0\n";
  for (int row = 0; row < 8; ++row) {
    const std::string rows = fmt::format("[{}:{},0:8]", row, row + 1);
    lanes += "  copy x" + rows + " -> part" + rows + "\n";
    reader += "  copy part" + rows + " -> out" + rows + "\n";
  }
  const Diagnostic d = expect_only(check_lanes(lanes + reader), DiagnosticKind::read_before_write);
  EXPECT_THAT(d.message, HasSubstr("(and 7 more like this)"));
}

TEST(Ordering, ReadingBeforeTheWriteInTheSameLaneWouldSeeTheRunBefore) {
  const Diagnostic d = expect_only(check_lanes("lane 0 compute 0\n"
                                               "  copy part[0:8,0:8] -> out[0:8,0:8]\n"
                                               "  copy x[0:8,0:8] -> part[0:8,0:8]\n"),
                                   DiagnosticKind::read_before_write);
  EXPECT_THAT(d.message, HasSubstr("an earlier run's data"));
}

TEST(Ordering, APlaceMayBeReusedInsideARunWhenTheOldReaderIsDone) {
  const std::string_view plan =
      "lane 0 compute 0\n"
      "  copy x[0:4,0:8] -> part[0:4,0:8]\n"
      "  notify s.0@0 += 1\n"
      "  wait s.1 >= 1\n"
      "  copy x[4:8,0:8] -> part[0:4,0:8]\n"
      "  notify s.0@0 += 1\n"
      "lane 0 comm 0\n"
      "  wait s.0 >= 1\n"
      "  copy part[0:4,0:8] -> out[0:4,0:8]\n"
      "  notify s.1@0 += 1\n"
      "  wait s.0 >= 2\n"
      "  copy part[0:4,0:8] -> out[4:8,0:8]\n";
  expect_clean(check_lanes(plan));
  std::string hasty(plan);
  hasty.erase(hasty.find("  wait s.1 >= 1\n"), 16);
  const Diagnostic d = expect_only(check_lanes(hasty), DiagnosticKind::overwrite_unread);
  EXPECT_EQ(d.where, (InstrRef{0, 2}));
  EXPECT_EQ(d.other, (InstrRef{1, 1}));
}

TEST(Ordering, TwoLanesThatWriteOnePlaceMustBeOrdered) {
  const Diagnostic d = expect_only(check_lanes("lane 0 compute 0\n"
                                               "  copy x[0:8,0:8] -> out[0:8,0:8]\n"
                                               "lane 0 compute 1\n"
                                               "  copy #3 x[0:4,0:8] -> out[4:8,0:8]\n"),
                                   DiagnosticKind::unordered_writes);
  EXPECT_EQ(d.tile, 3);
}

TEST(Ordering, ATaskMustNotWriteTwiceToOnePlaceNorOverWhatItReads) {
  expect_only(check_lanes("lane 0 compute 0\n"
                          "  copy x[0:8,0:8] -> out[0:8,0:8] out[0:8,0:8]\n"),
              DiagnosticKind::unordered_writes);
  expect_only(check_lanes("lane 0 compute 0\n"
                          "  copy x[0:4,0:8] -> part[0:4,0:8]\n"
                          "  copy part[0:4,0:8] -> part[2:6,0:8]\n"
                          "  copy x[0:8,0:8] -> out[0:8,0:8]\n"),
              DiagnosticKind::overwrite_unread);
  expect_only(check_lanes("lane 0 compute 0\n"
                          "  copy x[0:8,0:8] -> out[0:8,0:8]\n"
                          "  reduce out[0:8,0:8] x[0:8,0:8] -> out[0:8,0:8]\n"),
              DiagnosticKind::overwrite_unread);
}

TEST(Ordering, BoundariesOrderTheComputeLanesOfARank) {
  const std::string write = "  copy x[0:8,0:8] -> part[0:8,0:8]\n", boundary = "  boundary 0\n";
  const std::string other =
      "lane 0 compute 1\n  boundary 0\n  copy part[0:8,0:8] -> out[0:8,0:8]\n";
  expect_clean(check_lanes("lane 0 compute 0\n" + write + boundary + other));
  expect_only(check_lanes("lane 0 compute 0\n" + boundary + write + other),
              DiagnosticKind::read_before_write);
}

TEST(Ordering, CollectivesFinishAfterAllRanksHaveStarted) {
  const std::string body =
      "buffer x fp32 8x8 input\n"
      "buffer part fp32 8x8 local\n"
      "buffer slots fp32 8x8 symmetric copies=2\n"
      "buffer out fp32 8x8 output\n"
      "signals s 1\n";
  // What rank 0 writes into rank 1 before its collective, rank 1 reads after its own.
  expect_clean(check_text(2, body + "lane 0 compute 0\n"
                                    "  copy x[0:8,0:8] -> slots@1[0:8,0:8] slots[0:8,0:8]\n"
                                    "  copy x[0:8,0:8] -> part[0:8,0:8]\n"
                                    "  notify s.0@0 += 1\n"
                                    "lane 0 nccl 0\n"
                                    "  wait s.0 >= 1\n"
                                    "  collective all_reduce 0 part[0:8,0:8] -> out[0:8,0:8]\n"
                                    "lane 1 compute 0\n"
                                    "  copy x[0:8,0:8] -> part[0:8,0:8]\n"
                                    "  notify s.0@1 += 1\n"
                                    "lane 1 copy 0\n"
                                    "  wait s.0 >= 2\n"
                                    "  copy slots[0:4,0:8] -> part[0:4,0:8]\n"
                                    "lane 1 nccl 0\n"
                                    "  wait s.0 >= 1\n"
                                    "  collective all_reduce 0 part[0:8,0:8] -> out[0:8,0:8]\n"
                                    "  notify s.0@1 += 1\n"));
}

TEST(Ordering, CollectivesReleaseWhatTheirLaneDidBefore) {
  // Rank 0 reads what its own collective `read` has written, once rank 1 is behind number 1.
  const auto reads = [](const std::string& read) {
    const std::string both =
        "  collective all_reduce 0 x[0:8,0:8] -> first[0:8,0:8]\n"
        "  collective all_reduce 1 x[0:8,0:8] -> second[0:8,0:8]\n";
    return check_text(2,
                      "buffer x fp32 8x8 input\n"
                      "buffer first fp32 8x8 local\n"
                      "buffer second fp32 8x8 local\n"
                      "buffer out fp32 8x8 output\n"
                      "signals s 1\n"
                      "lane 0 compute 0\n"
                      "  wait s.0 >= 1\n"
                      "  copy " +
                          read + "[0:8,0:8] -> out[0:8,0:8]\nlane 0 nccl 0\n" + both +
                          "lane 1 compute 0\n  copy x[0:8,0:8] -> out[0:8,0:8]\nlane 1 nccl 0\n" +
                          both + "  notify s.0@0 += 1\n");
  };
  expect_clean(reads("first"));
  expect_only(reads("second"), DiagnosticKind::read_before_write);
}

// The teams of ranks 0 and 1, and 2 and 3, do not wait for each other.
TEST(Ordering, CollectivesOfTeamsOrderTheirRanksOnly) {
  const auto reads_what_rank_0_wrote = [](int reader) {
    std::string body =
        "buffer x fp32 8x8 input\n"
        "buffer sum fp32 8x8 local\n"
        "buffer slots fp32 8x8 symmetric copies=2\n"
        "buffer out fp32 8x8 output\n"
        "signals s 1\n";
    for (int rank = 0; rank < 4; ++rank) {
      body += fmt::format("lane {} compute 0\n", rank);
      if (rank == 0) {
        body +=
            fmt::format("  copy x[0:8,0:8] -> slots@{}[0:8,0:8]\n  notify s.0@0 += 1\n", reader);
      }
      body += rank != reader ? "  copy x[0:8,0:8] -> out[0:8,0:8]\n"
                             : "  wait s.0 >= 1\n  copy slots[0:8,0:8] -> out[0:8,0:8]\n";
      body += fmt::format("lane {} nccl 0\n", rank);
      if (rank == 0) body += "  wait s.0 >= 1\n";
      body += "  collective all_reduce 0 team=2 x[0:8,0:8] -> sum[0:8,0:8]\n";
      if (rank == reader) body += fmt::format("  notify s.0@{} += 1\n", reader);
    }
    return check_text(4, body);
  };
  expect_clean(reads_what_rank_0_wrote(1));
  for (const int other : {2, 3}) {
    const CheckReport report = reads_what_rank_0_wrote(other);
    ASSERT_FALSE(report.clean());
    EXPECT_EQ(report.diagnostics[0].kind, DiagnosticKind::read_before_write);
  }
}

}  // namespace
}  // namespace stretto

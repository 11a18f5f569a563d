// Lanes that wait for each other.
#include <fmt/format.h>

#include "check/text_plan.h"

namespace stretto {
namespace {

using testing::HasSubstr;

TEST(Deadlock, TheCycleIsSpelledOut) {
  const Diagnostic d = expect_only(check_text(2,
                                              "signals a 1\n"
                                              "signals b 1\n"
                                              "lane 0 compute 0\n"
                                              "  wait a.0 >= 1\n"
                                              "  notify b.0@1 += 1\n"
                                              "lane 0 compute 1\n"
                                              "  wait b.0 >= 1\n"
                                              "lane 1 compute 0\n"
                                              "  wait b.0 >= 1\n"
                                              "  notify a.0@0 += 1\n"
                                              "  notify b.0@0 += 1\n"),
                                   DiagnosticKind::deadlock);
  EXPECT_EQ(d.signal, "a.0@0");
  EXPECT_EQ(d.message,
            "deadlock of 2 lanes: rank 0 compute 0, which stands at instruction 0 (wait a.0 >= 1, "
            "at 0 of 1) of run 0 and needs rank 1 compute 0, which stands at instruction 0 (wait "
            "b.0 >= 1, at 0 of 1) of run 0 and needs rank 0 compute 0");
}

TEST(Deadlock, ALaneCannotWaitForItself) {
  const Diagnostic d = expect_only(check_text(1,
                                              "signals a 1\n"
                                              "lane 0 compute 0\n"
                                              "  wait a.0 >= 1\n"
                                              "  notify a.0@0 += 1\n"),
                                   DiagnosticKind::deadlock);
  EXPECT_THAT(d.hint, HasSubstr("notifies itself further down"));
}

// A ring of lanes, each of which waits for the one before.
CheckReport ring(int lanes) {
  std::string body = fmt::format("signals a {}\n", lanes);
  for (int lane = 0; lane < lanes; ++lane) {
    body += fmt::format("lane 0 comm {}\n  wait a.{} >= 1\n  notify a.{}@0 += 1\n", lane, lane,
                        (lane + 1) % lanes);
  }
  return check_text(1, body, 99);
}

TEST(Deadlock, AllLanesThatTheMessageNamesAreGiven) {
  const Diagnostic four = expect_only(ring(4), DiagnosticKind::deadlock);
  EXPECT_EQ(four.where, (InstrRef{0, 0}));
  EXPECT_EQ(four.other, (InstrRef{3, 0}));
  EXPECT_THAT(four.also, testing::ElementsAre(InstrRef{2, 0}, InstrRef{1, 0}));
  const Diagnostic many = expect_only(ring(40), DiagnosticKind::deadlock);
  EXPECT_THAT(many.message, HasSubstr("and so on, back to"));
  EXPECT_EQ(many.also.size() + 2, kMostNamed);
}

TEST(Deadlock, OnlyTheUnreachableThresholdIsReportedWhenItHoldsEverybodyUp) {
  expect_only(check_text(1,
                         "signals a 2\n"
                         "lane 0 compute 0\n"
                         "  wait a.0 >= 1\n"
                         "  notify a.1@0 += 1\n"
                         "lane 0 compute 1\n"
                         "  wait a.1 >= 1\n"),
              DiagnosticKind::unreachable_threshold);
}

TEST(Deadlock, TwoCyclesAreTwoReports) {
  const CheckReport report = check_text(2,
                                        "signals a 1\n"
                                        "lane 0 compute 0\n"
                                        "  wait a.0 >= 1\n"
                                        "  notify a.0@0 += 1\n"
                                        "lane 1 compute 0\n"
                                        "  wait a.0 >= 1\n"
                                        "  notify a.0@1 += 1\n");
  ASSERT_EQ(report.diagnostics.size(), 2u) << all_messages(report);
  EXPECT_EQ(report.diagnostics[0].where->lane, 0u);
  EXPECT_EQ(report.diagnostics[1].where->lane, 1u);
}

TEST(Deadlock, CollectivesAndWaitsCanBlockEachOther) {
  // Rank 1's collective waits for what its peer does only after the collective.
  const Diagnostic d =
      expect_only(check_text(2,
                             "buffer x fp32 8x8 input\n"
                             "buffer out fp32 8x8 output\n"
                             "signals a 1\n"
                             "lane 0 nccl 0\n"
                             "  collective all_reduce 0 x[0:8,0:8] -> out[0:8,0:8]\n"
                             "  notify a.0@1 += 1\n"
                             "lane 1 nccl 0\n"
                             "  wait a.0 >= 1\n"
                             "  collective all_reduce 0 x[0:8,0:8] -> out[0:8,0:8]\n"),
                  DiagnosticKind::deadlock);
  EXPECT_THAT(d.message, HasSubstr("(all_reduce 0) of run 0"));
}

// Teams go on without each other, so that only ranks 2 and 3 are stuck.
TEST(Deadlock, CollectivesOfATeamBlockItsRanksOnly) {
  std::string body =
      "buffer x fp32 8x8 input\n"
      "buffer out fp32 8x8 output\n"
      "signals a 1\n";
  for (int rank = 0; rank < 4; ++rank) {
    body += fmt::format("lane {} nccl 0\n", rank);
    if (rank == 3) body += "  wait a.0 >= 1\n";
    body += "  collective all_reduce 0 team=2 x[0:8,0:8] -> out[0:8,0:8]\n";
    // Who tells rank 3: its own team, after what it would start.
    if (rank == 2) body += "  notify a.0@3 += 1\n";
  }
  const Diagnostic d = expect_only(check_text(4, body), DiagnosticKind::deadlock);
  EXPECT_THAT(d.message, HasSubstr("rank 3"));
  const size_t at = body.find("  notify");
  const std::string notify = body.substr(at, body.find('\n', at) + 1 - at);
  body.erase(at, notify.size());
  body.insert(body.find("lane 1"), notify);  // rank 0, of the other team, which nothing holds up
  expect_clean(check_text(4, body));
}

TEST(Deadlock, AWaitForTheNextRunOfAnotherRankShowsInTheSecondRun) {
  // Run 0 passes freely; in run 1 each waits for a notify that comes after the other's same wait.
  expect_clean(check_text(2,
                          "signals a 1\n"
                          "lane 0 compute 0\n"
                          "  wait a.0 >= 1 lag 1\n"
                          "  notify a.0@1 += 1\n"
                          "lane 1 compute 0\n"
                          "  wait a.0 >= 1 lag 1\n"
                          "  notify a.0@0 += 1\n"));
}

}  // namespace
}  // namespace stretto

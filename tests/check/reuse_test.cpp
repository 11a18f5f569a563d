// Buffers that one run leaves to the next.
#include "check/text_plan.h"

namespace stretto {
namespace {

using testing::HasSubstr;

// Rank 0 pushes to rank 1, which copies to its output. `send`: what comes before the push.
std::string one_way(const std::string& slots, const std::string& send, const std::string& after) {
  return "buffer x fp32 8x8 input\n"
         "buffer slots fp32 8x8 symmetric" +
         slots +
         "\n"
         "buffer out fp32 8x8 output\n"
         "signals s 1" +
         slots +
         "\n"
         "signals ack 1\n"
         "lane 0 compute 0\n" +
         send +
         "  copy #1 x[0:8,0:8] -> slots@1[0:8,0:8]\n"
         "  notify s.0@1 += 1\n"
         "  copy x[0:8,0:8] -> out[0:8,0:8]\n"
         "lane 1 comm 0\n"
         "  wait s.0 >= 1\n"
         "  copy #2 slots[0:8,0:8] -> out[0:8,0:8]\n" +
         after;
}

TEST(Reuse, ASenderThatNeverHearsBackOverwritesUnreadData) {
  for (const std::string slots : {"", " copies=2"}) {
    const CheckReport report = check_text(2, one_way(slots, "", ""));
    const Diagnostic d = expect_only(report, DiagnosticKind::overwrite_unread);
    EXPECT_EQ(d.where, (InstrRef{0, 0}));
    EXPECT_EQ(d.other, (InstrRef{1, 1}));
    EXPECT_THAT(d.message, HasSubstr(slots.empty() ? "1 run earlier" : "2 runs earlier"));
    EXPECT_EQ(report.epochs, slots.empty() ? 2 : 3);
  }
}

TEST(Reuse, AnAcknowledgementOfTheRunBeforeProtectsOneCopy) {
  const std::string ack = "  notify ack.0@0 += 1\n";
  expect_clean(check_text(2, one_way("", "  wait ack.0 >= 1 lag 1\n", ack)));
  expect_clean(check_text(2, one_way(" copies=2", "  wait ack.0 >= 1 lag 2\n", ack)));
  expect_clean(check_text(2, one_way(" copies=2", "  wait ack.0 >= 1 lag 1\n", ack)));
  expect_only(check_text(2, one_way("", "  wait ack.0 >= 1 lag 2\n", ack)),
              DiagnosticKind::overwrite_unread);
}

TEST(Reuse, AnAcknowledgementOfTheSameRunComesTooLate) {
  const Diagnostic d =
      expect_only(check_text(2, one_way("", "  wait ack.0 >= 1\n", "  notify ack.0@0 += 1\n")),
                  DiagnosticKind::deadlock);
  EXPECT_THAT(d.message, HasSubstr("deadlock of 2 lanes"));
}

// Both ranks push to each other: receiving in run e + 1 tells that the peer has ended run e.
std::string both_ways(const std::string& slots) {
  std::string body = "buffer x fp32 8x8 input\nbuffer slots fp32 8x8 symmetric" + slots +
                     "\nbuffer out fp32 8x8 output\nsignals s 1" + slots + "\n";
  for (const char* me : {"0", "1"}) {
    const std::string peer = *me == '0' ? "1" : "0";
    body += std::string("lane ") + me + " compute 0\n  copy x[0:8,0:8] -> slots@" + peer +
            "[0:8,0:8]\n  notify s.0@" + peer + " += 1\nlane " + me +
            " comm 0\n  wait s.0 >= 1\n  copy slots[0:8,0:8] -> out[0:8,0:8]\n";
  }
  return body;
}

TEST(Reuse, DoubleBufferingIsSafeWhenBothSidesHearFromEachOther) {
  expect_clean(check_text(2, both_ways(" copies=2")));
  const CheckReport single = check_text(2, both_ways(""));
  EXPECT_FALSE(single.clean());
  for (const Diagnostic& d : single.diagnostics) {
    EXPECT_EQ(d.kind, DiagnosticKind::overwrite_unread);
  }
}

TEST(Reuse, LocalMemoryIsKeptApartByTheOrderOfRuns) {
  expect_clean(check_text(1,
                          "buffer x fp32 8x8 input\n"
                          "buffer part fp32 8x8 local\n"
                          "buffer out fp32 8x8 output\n"
                          "signals s 1\n"
                          "lane 0 compute 0\n"
                          "  copy x[0:8,0:8] -> part[0:8,0:8]\n"
                          "  notify s.0@0 += 1\n"
                          "lane 0 comm 0\n"
                          "  wait s.0 >= 1\n"
                          "  copy part[0:8,0:8] -> out[0:8,0:8]\n"));
}

TEST(Reuse, WritesOfTwoRanksToOnePlaceAreOrderedBetweenRunsToo) {
  // Rank 1 writes after rank 0 has; nothing keeps rank 0's next run behind rank 1.
  const CheckReport report = check_text(2,
                                        "buffer x fp32 8x8 input\n"
                                        "buffer slots fp32 8x8 symmetric\n"
                                        "signals s 1\n"
                                        "lane 0 compute 0\n"
                                        "  copy x[0:8,0:8] -> slots@1[0:8,0:8]\n"
                                        "  notify s.0@1 += 1\n"
                                        "lane 1 compute 0\n"
                                        "  wait s.0 >= 1\n"
                                        "  copy x[0:8,0:8] -> slots[0:8,0:8]\n");
  expect_only(report, DiagnosticKind::unordered_writes);
}

}  // namespace
}  // namespace stretto

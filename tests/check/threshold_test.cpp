// What a passed wait knows, and thresholds that are wrong by themselves.
#include "check/text_plan.h"

namespace stretto {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Two producers on one rank, one consumer that waits for `amount` of both.
CheckReport two_producers(const std::string& amount) {
  return check_text(1,
                    "buffer x fp32 8x8 input\n"
                    "buffer part fp32 8x8 local\n"
                    "buffer out fp32 8x8 output\n"
                    "signals s 1\n"
                    "lane 0 compute 0\n"
                    "  copy x[0:4,0:8] -> part[0:4,0:8]\n"
                    "  notify s.0@0 += 1\n"
                    "lane 0 compute 1\n"
                    "  copy x[4:8,0:8] -> part[4:8,0:8]\n"
                    "  notify s.0@0 += 1\n"
                    "lane 0 comm 0\n"
                    "  wait s.0 >= " +
                        amount +
                        "\n"
                        "  copy part[0:8,0:8] -> out[0:8,0:8]\n");
}

TEST(Threshold, AllNotifiesAreKnownOnlyWhenNoneCanBeMissing) {
  expect_clean(two_producers("2"));
  const Diagnostic d = expect_only(two_producers("1"), DiagnosticKind::read_before_write);
  EXPECT_THAT(d.message, HasSubstr("(and 1 more like this)"));
  EXPECT_THAT(d.hint, HasSubstr("does not need that notify to pass"));
  EXPECT_THAT(d.also, ElementsAre(InstrRef{0, 1}, InstrRef{2, 0})) << "the notify, the wait";
}

TEST(Threshold, MoreThanARunNotifiesIsUnreachable) {
  const Diagnostic d = expect_only(two_producers("3"), DiagnosticKind::unreachable_threshold);
  EXPECT_EQ(d.signal, "s.0@0");
  EXPECT_THAT(d.message, HasSubstr("asks for too much: one run notifies s.0@0 2 times in all"));
  EXPECT_EQ(d.hint, "wait for at most 2, or notify 1 more");
  EXPECT_THAT(d.also, ElementsAre(InstrRef{0, 1}, InstrRef{1, 1})) << "what is notified";
  EXPECT_FALSE(d.signals);
}

// With lag such a wait passes, once a later run has notified too: so no message may say it cannot.
TEST(Threshold, MoreThanARunNotifiesIsRefusedWithLagToo) {
  const auto plan = [](const std::string& ack, const std::string& notify) {
    return check_text(2,
                      "buffer x fp32 8x8 input\n"
                      "buffer part fp32 8x8 symmetric copies=2\n"
                      "buffer out fp32 8x8 output\n"
                      "signals s 1 copies=2\n"
                      "signals ack 1\n"
                      "lane 0 compute 0\n  wait ack.0 >= " +
                          ack +
                          " lag 2\n"
                          "  copy x[0:8,0:8] -> part@1[0:8,0:8] out[0:8,0:8]\n"
                          "  notify s.0@1 += 1\n"
                          "lane 1 compute 0\n"
                          "  wait s.0 >= 1\n"
                          "  copy part[0:8,0:8] -> out[0:8,0:8]\n" +
                          notify);
  };
  const std::string notify = "  notify ack.0@0 += 1\n";
  expect_clean(plan("1", notify));
  const Diagnostic d = expect_only(plan("2", notify), DiagnosticKind::unreachable_threshold);
  EXPECT_THAT(d.message, HasSubstr("(wait ack.0 >= 2 lag 2) asks for too much: one run notifies "
                                   "ack.0@0 1 time in all"));
  EXPECT_EQ(d.hint, "wait for at most 1, or notify 1 more");
  const Diagnostic never = expect_only(plan("1", ""), DiagnosticKind::unreachable_threshold);
  EXPECT_THAT(never.message, HasSubstr("can never pass: no lane notifies ack.0@0"));
}

TEST(Threshold, ALoneLanesNotifiesCountUpInOrder) {
  auto plan = [](const std::string& second) {
    return check_text(1,
                      "buffer x fp32 8x8 input\n"
                      "buffer part fp32 8x8 local\n"
                      "buffer out fp32 8x8 output\n"
                      "signals s 1\n"
                      "lane 0 compute 0\n"
                      "  copy x[0:4,0:8] -> part[0:4,0:8]\n"
                      "  notify s.0@0 += 2\n"
                      "  copy x[4:8,0:8] -> part[4:8,0:8]\n"
                      "  notify s.0@0 += 2\n"
                      "lane 0 comm 0\n"
                      "  wait s.0 >= 2\n"
                      "  copy part[0:4,0:8] -> out[0:4,0:8]\n"
                      "  wait s.0 >= " +
                          second +
                          "\n"
                          "  copy part[4:8,0:8] -> out[4:8,0:8]\n");
  };
  expect_clean(plan("4"));
  expect_clean(plan("3"));  // cannot be reached without the second either
  expect_only(plan("2"), DiagnosticKind::read_before_write);
}

// Ranks 1 and 2 push to rank 0, which adds up; `counter`: the signal each of them notifies.
std::string gather(const std::string& copies, const std::string& counter2, const std::string& waits,
                   const std::string& ack) {
  std::string body = "buffer x fp32 4x8 input\nbuffer slots fp32 8x8 symmetric" + copies +
                     "\nbuffer out fp32 8x8 output sharded=8\nsignals s 2" + copies +
                     "\nsignals ack 2\n";
  body += "lane 0 comm 0\n" + waits + "  copy slots[0:8,0:8] -> out[0:8,0:8]\n";
  if (!ack.empty()) body += "  notify ack.0@1 += 1\n  notify ack.0@2 += 1\n";
  body +=
      "lane 1 compute 0\n" + ack + "  copy x[0:4,0:8] -> slots@0[0:4,0:8]\n  notify s.0@0 += 1\n";
  body += "lane 2 compute 0\n" + ack + "  copy x[0:4,0:8] -> slots@0[4:8,0:8]\n  notify " +
          counter2 + "@0 += 1\n";
  return body;
}

TEST(Threshold, ARankThatRunsAheadMustNotCountForASlowOne) {
  // With two copies of the data, acknowledged after two runs, but one shared counter of one copy,
  // rank 1 may notify twice while rank 2 sleeps.
  std::string body = gather(" copies=2", "s.0", "  wait s.0 >= 2\n", "  wait ack.0 >= 1 lag 2\n");
  body.replace(body.find("signals s 2 copies=2"), 20, "signals s 2");
  const Diagnostic d = expect_only(check_text(3, body), DiagnosticKind::early_threshold);
  EXPECT_EQ(d.where, (InstrRef{0, 0}));
  EXPECT_EQ(d.signal, "s.0@0");
  EXPECT_THAT(d.message, HasSubstr("may run ahead"));
  // Alternating counters, counters of their own, or an earlier acknowledgement each cure it.
  expect_clean(
      check_text(3, gather(" copies=2", "s.0", "  wait s.0 >= 2\n", "  wait ack.0 >= 1 lag 2\n")));
  expect_clean(check_text(3, gather(" copies=2", "s.1", "  wait s.0 >= 1\n  wait s.1 >= 1\n",
                                    "  wait ack.0 >= 1 lag 2\n")));
  expect_clean(check_text(3, gather("", "s.0", "  wait s.0 >= 2\n", "  wait ack.0 >= 1 lag 1\n")));
}

// Rank 1 hears of `heard` before it counts again, rank 2 of a wait for all.
std::string heard_of(const std::string& heard) {
  std::string body = gather(" copies=2", "s.0", "  wait s.0 >= 2\n", "  wait ack.0 >= 1 lag 2\n");
  body.replace(body.find("signals s 2 copies=2"), 20, "signals s 2");
  body.insert(body.find("lane 1 compute 0"),
              "  notify ack.1@2 += 1\nlane 0 comm 1\n" + heard + "  notify ack.1@1 += 1\n");
  for (const char* first : {"0:4", "4:8"}) {
    body.insert(body.find(std::string("  copy x[0:4,0:8] -> slots@0[") + first),
                "  wait ack.1 >= 1 lag 1\n");
  }
  return body;
}

TEST(Threshold, AWaitForLessThanAllOrForAnEarlierRunKeepsNobodyBack) {
  expect_clean(check_text(3, heard_of("  wait s.0 >= 2\n")));
  expect_only(check_text(3, heard_of("  wait s.0 >= 1\n")), DiagnosticKind::early_threshold);
  expect_only(check_text(3, heard_of("  wait s.0 >= 2 lag 1\n")), DiagnosticKind::early_threshold);
}

TEST(Threshold, LanesOfOneRankCannotRunAheadOfEachOther) {
  // Two lanes of rank 1 share a counter that alternates less often than the data.
  expect_clean(check_text(2,
                          "buffer x fp32 4x8 input\n"
                          "buffer slots fp32 8x8 symmetric copies=2\n"
                          "buffer out fp32 8x8 output sharded=8\n"
                          "signals s 1\n"
                          "signals ack 1\n"
                          "lane 0 comm 0\n"
                          "  wait s.0 >= 2\n"
                          "  copy slots[0:8,0:8] -> out[0:8,0:8]\n"
                          "  notify ack.0@1 += 1\n"
                          "lane 1 compute 0\n"
                          "  wait ack.0 >= 1 lag 2\n"
                          "  copy x[0:4,0:8] -> slots@0[0:4,0:8]\n"
                          "  notify s.0@0 += 1\n"
                          "lane 1 compute 1\n"
                          "  wait ack.0 >= 1 lag 2\n"
                          "  copy x[0:4,0:8] -> slots@0[4:8,0:8]\n"
                          "  notify s.0@0 += 1\n"));
}

}  // namespace
}  // namespace stretto

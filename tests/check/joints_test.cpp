// Many lanes that wait for all that many others add: what they learn of is one event, and no more
// than what each of the others told.
#include "check/joints.h"

#include <fmt/format.h>

#include "check/text_plan.h"

namespace stretto {
namespace {

// Lanes of rank 0 that write four rows each of what as many lanes of rank 1 read; then some tell
// that they have read, and it is written again two runs later.
struct Text {
  int writers = 3, readers = 4;
  std::string first = "  copy x[0:4,0:8] -> part@1[0:4,0:8]\n  notify s.0@1 += 1\n";
  std::string others = "  notify s.0@1 += 1\n";  // of writers, behind the write
  std::string wait = "  wait s.0 >= 3\n", last_wait = "  wait s.0 >= 3\n";

  std::string text() const {
    std::string all =
        "buffer x fp32 16x8 input\n"
        "buffer part fp32 16x8 symmetric copies=2\n"
        "buffer got fp32 64x8 local\n"
        "signals s 2 copies=2\n"
        "signals ack 1\n";
    const auto rows = [](int i) { return fmt::format("[{}:{},0:8]", 4 * i, 4 * i + 4); };
    for (int i = 0; i < writers; ++i) {
      all += fmt::format("lane 0 compute {}\n  wait ack.0 >= {} lag 2\n", i, readers);
      all += i == 0 ? first : fmt::format("  copy x{0} -> part@1{0}\n{1}", rows(i), others);
    }
    for (int i = 0; i < readers; ++i) {
      all += fmt::format("lane 1 compute {}\n{}", i, i + 1 == readers ? last_wait : wait);
      all += fmt::format("  copy part[0:{},0:8] -> got[{}:{},0:8]\n", 4 * writers, 4 * writers * i,
                         4 * writers * (i + 1));
      all += "  notify ack.0@0 += 1\n";
    }
    return all;
  }
  CheckReport report() const { return check_text(2, text()); }
};

uint32_t joints_of(const Text& text) {
  const Plan plan = text_plan(2, text.text());
  const checker::InstrIndex index(plan);
  const checker::Counters counters(plan, index);
  return checker::Joints(plan, index, counters, checker::EventNumbers(plan, index)).count();
}

TEST(Joints, AreOfCountersThatManyAddToAndManyAwait) {
  const Text text;
  EXPECT_EQ(joints_of(text), 2u) << "s.0 and ack.0";
  expect_clean(text.report());
  Text few;
  few.readers = 1;
  EXPECT_EQ(joints_of(few), 0u);
  expect_clean(few.report());
}

TEST(Joints, CountersToldOfByTheSameEventsShareOne) {
  Text text;
  text.first += "  notify s.1@1 += 2\n";
  text.others += "  notify s.1@1 += 1\n";
  text.last_wait = "  wait s.1 >= 4\n";
  EXPECT_EQ(joints_of(text), 2u);
  expect_clean(text.report());
  // One lane tells the second before it has written.
  text.first = "  notify s.1@1 += 2\n  copy x[0:4,0:8] -> part@1[0:4,0:8]\n  notify s.0@1 += 1\n";
  expect_only(text.report(), DiagnosticKind::read_before_write);
}

// To read what the first writer's second task writes.
void expect_each_reader_reported(const Text& text) {
  const CheckReport report = text.report();
  EXPECT_EQ(report.diagnostics.size(), static_cast<size_t>(text.readers)) << all_messages(report);
  for (const Diagnostic& d : report.diagnostics) {
    EXPECT_EQ(to_string(d.kind), to_string(DiagnosticKind::read_before_write));
    EXPECT_EQ(d.other, (InstrRef{0, 3}));
  }
}

TEST(Joints, SayNothingOfWhatALaneDoesBehindItsLastNotify) {
  Text text;
  text.first =
      "  copy x[0:2,0:8] -> part@1[0:2,0:8]\n  notify s.0@1 += 1\n"
      "  copy x[2:4,0:8] -> part@1[2:4,0:8]\n";
  expect_each_reader_reported(text);
  // Nor before it has told all.
  text.first += "  notify s.0@1 += 1\n";
  expect_each_reader_reported(text);
  text.wait = text.last_wait = "  wait s.0 >= 4\n";
  expect_clean(text.report());
}

TEST(Joints, AreNotForThoseWhoWaitForLess) {
  Text text;
  text.last_wait = "  wait s.0 >= 2\n";
  const Diagnostic d = expect_only(text.report(), DiagnosticKind::read_before_write);
  EXPECT_EQ(d.where, (InstrRef{static_cast<uint32_t>(text.writers + text.readers - 1), 1}));
}

TEST(Joints, OfAcknowledgementsHoldForTheRunThatTheyAreOf) {
  Text text;
  expect_clean(text.report());
  std::string plan = text.text();
  const std::string one = "  wait ack.0 >= 4 lag 2\n";
  // A writer that does not wait, and one that waits for the run before the last but two.
  std::string hasty = plan;
  hasty.erase(hasty.rfind(one), one.size());
  expect_only(check_text(2, hasty), DiagnosticKind::overwrite_unread);
  std::string late = plan;
  late.replace(late.rfind("lag 2"), 5, "lag 3");
  EXPECT_FALSE(check_text(2, late).clean());
  std::string less = plan;
  less.replace(less.rfind(">= 4 lag"), 8, ">= 3 lag");
  EXPECT_FALSE(check_text(2, less).clean());
}

TEST(Joints, AreNotForALaneThatAdds) {
  // Each reader is also told by the others, on a counter that all of them add to.
  std::string text =
      "buffer x fp32 16x8 input\nbuffer part fp32 16x8 local\nbuffer got fp32 64x8 local\n"
      "signals s 1\n";
  for (int i = 0; i < 4; ++i) {
    text += fmt::format(
        "lane 0 compute {0}\n  copy x[{1}:{2},0:8] -> part[{1}:{2},0:8]\n  notify s.0@0 += 1\n"
        "  wait s.0 >= 4\n  copy part[0:16,0:8] -> got[{3}:{4},0:8]\n  boundary 0\n",
        i, 4 * i, 4 * i + 4, 16 * i, 16 * i + 16);
  }
  expect_clean(check_text(1, text));
}

}  // namespace
}  // namespace stretto

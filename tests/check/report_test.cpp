// What a report counts, and how it stays short.
#include <fmt/format.h>

#include "check/text_plan.h"

namespace stretto {
namespace {

using testing::HasSubstr;

TEST(Report, CountsWhatWasExamined) {
  const CheckReport report = check_text(1,
                                        "buffer x fp32 8x8 input\n"
                                        "buffer part fp32 8x8 local\n"
                                        "buffer out fp32 8x8 output copies=2\n"
                                        "signals s 1\n"
                                        "lane 0 compute 0\n"
                                        "  copy x[0:8,0:8] -> part[0:8,0:8]\n"
                                        "  notify s.0@0 += 1\n"
                                        "lane 0 comm 0\n"
                                        "  wait s.0 >= 1\n"
                                        "  copy part[0:8,0:8] -> out[0:8,0:8]\n");
  expect_clean(report);
  EXPECT_EQ(report.tasks, 2u);
  EXPECT_EQ(report.waits, 1u);
  EXPECT_EQ(report.notifies, 1u);
  EXPECT_EQ(report.pairs_proved, 1u);
  EXPECT_EQ(report.epochs, 3);
  EXPECT_FALSE(report.truncated);
}

// A lane writes a buffer, another reads all of it four times, and the first then writes it anew.
std::string read_again(int notify_behind_read) {
  std::string body =
      "buffer x fp32 8x8 input\n"
      "buffer part fp32 8x8 local\n"
      "buffer to fp32 32x8 local\n"
      "signals s 1\n"
      "signals done 1\n"
      "lane 0 compute 0\n"
      "  copy x[0:8,0:8] -> part[0:8,0:8]\n"
      "  notify s.0@0 += 1\n"
      "  wait done.0 >= 1\n"
      "  copy x[0:8,0:8] -> part[0:8,0:8]\n"
      "lane 0 comm 0\n"
      "  wait s.0 >= 1\n";
  for (int read = 0; read < 4; ++read) {
    body += fmt::format("  copy part[0:8,0:8] -> to[{}:{},0:8]\n", 8 * read, 8 * read + 8);
    if (read == notify_behind_read) body += "  notify done.0@0 += 1\n";
  }
  return body;
}

// Those between are before whoever the last is before, and behind whom the first is behind.
TEST(Report, OfALanesReadsOfARegionTheFirstAndTheLastAreProved) {
  const CheckReport report = check_text(1, read_again(3));
  expect_clean(report);
  EXPECT_EQ(report.pairs_proved, 5u);  // the writes, and two reads beside each
  for (int behind = 0; behind < 3; ++behind) {
    SCOPED_TRACE(behind);
    EXPECT_EQ(check_text(1, read_again(behind)).diagnostics.size(), 1u);
  }
}

// As many causes as lanes: each reads what nobody writes.
std::string many_faults(int lanes) {
  std::string body = "buffer part fp32 8x8 local\nbuffer to fp32 8x8 local\n";
  for (int lane = 0; lane < lanes; ++lane) {
    body += fmt::format("lane 0 comm {}\n  copy part[{}:{},0:8] -> to[{}:{},0:8]\n", lane, lane,
                        lane + 1, lane, lane + 1);
  }
  return body;
}

TEST(Report, StopsAtTheLimitAndSaysSo) {
  const Plan plan = text_plan(1, many_faults(8));
  CheckOptions options = kFragment;
  options.max_diagnostics = 8;
  CheckReport report = check(plan, options);
  EXPECT_EQ(report.diagnostics.size(), 8u);
  EXPECT_FALSE(report.truncated);
  options.max_diagnostics = 3;
  report = check(plan, options);
  EXPECT_EQ(report.diagnostics.size(), 3u);
  EXPECT_TRUE(report.truncated);
  options.max_diagnostics = 0;
  report = check(plan, options);
  EXPECT_TRUE(report.truncated);
  EXPECT_FALSE(report.clean());
}

TEST(Report, AMissingNotifyIsOneReportHoweverManyWaitForIt) {
  std::string body =
      "buffer x fp32 8x8 input\nbuffer part fp32 8x8 local\nbuffer out fp32 8x8 output\n"
      "signals s 1\nlane 0 compute 0\n  copy x[0:8,0:8] -> part[0:8,0:8]\n";
  for (int lane = 0; lane < 4; ++lane) {
    body +=
        fmt::format("lane 0 comm {}\n  wait s.0 >= 1\n  copy part[{}:{},0:8] -> out[{}:{},0:8]\n",
                    lane, 2 * lane, 2 * lane + 2, 2 * lane, 2 * lane + 2);
  }
  const Diagnostic d = expect_only(check_text(1, body), DiagnosticKind::unreachable_threshold);
  EXPECT_THAT(d.message, HasSubstr("(and 3 more like this)"));
  EXPECT_EQ(d.hint, "some lane should notify s.0@0");
  EXPECT_EQ(d.signals, 0);
}

TEST(Report, KindsHaveTheNamesOfTheTable) {
  EXPECT_EQ(to_string(DiagnosticKind::read_before_write), "read-before-write");
  EXPECT_EQ(to_string(DiagnosticKind::mismatched_collective), "mismatched-collective");
}

}  // namespace
}  // namespace stretto

// Where the parts of a plan stand in its text.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "lower/plan_of.h"
#include "plan/refusal.h"
#include "plan/sample.h"
#include "stretto/serve.h"

namespace stretto {
namespace {

using testing::ElementsAre;
using testing::StartsWith;

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines{""};  // counted from 1
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    lines.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

// A line's statement, without what means nothing.
std::string statement(const std::string& line) {
  const std::string_view blanks = " \t\r";
  const std::string text = line.substr(0, line.find(';'));
  const size_t begin = text.find_first_not_of(blanks);
  return begin == std::string::npos ? ""
                                    : text.substr(begin, text.find_last_not_of(blanks) + 1 - begin);
}

// The same plan with comments, blanks and empty lines all over.
std::string scattered(std::string_view text, unsigned seed) {
  std::mt19937 random(seed);
  std::string out;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    for (unsigned more = random() % 4; more > 0; --more) {
      out += random() % 2 == 0 ? " \t\n" : "  ; lane 0 compute 0\n";
    }
    out += text.substr(begin, end - begin);
    out += random() % 3 == 0 ? "\t; wait\r\n" : "\n";
    begin = end + 1;
  }
  return out;
}

void expect_lines(const Plan& plan, const PlanLines& lines, std::string_view text) {
  const std::vector<std::string> at = lines_of(text);
  ASSERT_EQ(lines.buffers.size(), plan.buffers.size());
  for (size_t i = 0; i < plan.buffers.size(); ++i) {
    EXPECT_THAT(statement(at.at(lines.buffers[i])), StartsWith("buffer " + plan.buffers[i].name));
  }
  ASSERT_EQ(lines.signals.size(), plan.signals.size());
  for (size_t i = 0; i < plan.signals.size(); ++i) {
    EXPECT_THAT(statement(at.at(lines.signals[i])), StartsWith("signals " + plan.signals[i].name));
  }
  ASSERT_EQ(lines.lanes.size(), plan.lanes.size());
  for (uint32_t l = 0; l < plan.lanes.size(); ++l) {
    const Lane& lane = plan.lanes[l];
    ASSERT_EQ(lines.lanes[l].instrs.size(), lane.instrs.size());
    const auto length = static_cast<uint32_t>(lane.instrs.size());
    EXPECT_EQ("lane" + describe(lane).substr(4), statement(at.at(lines.of({l, length}))));
    for (uint32_t pos = 0; pos < length; ++pos) {
      EXPECT_EQ(statement(at.at(lines.of({l, pos}))), print(plan, lane, lane.instrs[pos]));
    }
  }
}

TEST(Lines, CountFromOne) {
  PlanLines lines;
  parse_plan(kSampleText, "plan", &lines);
  EXPECT_THAT(lines.buffers, ElementsAre(5, 6, 7, 8, 9));
  EXPECT_THAT(lines.signals, ElementsAre(10, 11));
  ASSERT_EQ(lines.lanes.size(), 4u);
  EXPECT_THAT(lines.lanes[0].instrs, ElementsAre(14, 15, 16));
  EXPECT_EQ(lines.lanes[1].head, 18u);
  EXPECT_EQ(lines.of({3, 1}), 29u);
  EXPECT_EQ(lines.of({3, 4}), 27u) << "past its end a lane is named itself";
}

TEST(Lines, AreThoseOfTheirInstructionsWhateverStandsBetween) {
  const std::string lowered =
      print(plan_of("gemm-rs m=192 n=96 k=96 ranks=3 dtype=bf16", "slices,tile=32x32"));
  for (const std::string& text : {std::string(kSampleText), lowered}) {
    for (unsigned seed = 0; seed < 8; ++seed) {
      PlanLines lines;
      const std::string edited = scattered(text, seed);
      const Plan plan = parse_plan(edited, "plan", &lines);
      ASSERT_EQ(print(plan), text);
      expect_lines(plan, lines, edited);
    }
  }
}

// A run of fewer rows has fewer instructions, and those that it has keep their lines.
TEST(Lines, OfARunOfFewerRowsAreThoseOfThePlan) {
  const std::string text =
      print(plan_of("gemm-rs m=192 n=96 k=96 ranks=3 dtype=bf16", "tiles,rows=bucket,tile=32x32"));
  const std::vector<std::string> at = lines_of(text);
  for (const int64_t rows : {1, 65, 100, 192}) {
    PlanLines lines;
    const Plan plan = parse_plan(text, "plan", &lines);
    const Plan run = at_rows(plan, rows, &lines);
    EXPECT_EQ(run.num_instrs() < plan.num_instrs(), rows < 192) << rows;
    for (uint32_t l = 0; l < run.lanes.size(); ++l) {
      ASSERT_EQ(lines.lanes[l].instrs.size(), run.lanes[l].instrs.size());
      for (uint32_t pos = 0; pos < run.lanes[l].instrs.size(); ++pos) {
        // Of a task only regions differ: "gemm #3".
        const std::string instr = print(run, run.lanes[l], run.lanes[l].instrs[pos]);
        const std::string opening = instr.substr(0, instr.find('['));
        EXPECT_THAT(statement(at.at(lines.of({l, pos}))), StartsWith(opening));
      }
    }
  }
}

// Whatever word of a plan is damaged: only a schedule may be any text.
TEST(Lines, EveryDamagedWordIsRefusedAtItsLine) {
  const std::string text = scattered(kSampleText, 3);
  const std::vector<std::string> at = lines_of(text);
  size_t begin = 0, damaged = 0;
  for (size_t line = 1; line < at.size(); begin += at[line].size() + 1, ++line) {
    const std::string words = statement(at[line]);
    if (words.starts_with("schedule ")) continue;
    for (size_t from = 0; from < words.size();) {
      const size_t to = std::min(words.find(' ', from), words.size());
      std::string edited = text;
      edited.replace(begin + at[line].find(words) + from, to - from, 1, '?');
      EXPECT_THAT(refusal(edited, "p.txt"), StartsWith("p.txt:" + std::to_string(line) + ":"))
          << words << ", word at " << from;
      ++damaged;
      from = to + 1;
    }
  }
  EXPECT_GT(damaged, 100u);
}

}  // namespace
}  // namespace stretto

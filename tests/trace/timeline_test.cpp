// The terminal chart fits its width and shows what ran when.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "sim/hand_plan.h"
#include "stretto/simulate.h"

namespace stretto {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing_sim::HandPlan;
using testing_sim::round_machine;

// Rank 0 computes one tile, rank 1 two and then waits for a copy that takes as long as a tile.
HandPlan three_tiles() {
  HandPlan hand(2);
  hand.signals("s", 1);
  const int first = hand.lane(0, LaneKind::compute);
  hand.gemm(first, 0);
  hand.notify(first, 0, 0);
  const int mover = hand.lane(0, LaneKind::comm);
  hand.wait(mover, 0, 1);
  hand.copy(mover, hand.part(0, 0, 16), {hand.slots(1, 0, 16)});
  hand.gemm(hand.lane(1, LaneKind::compute), 0);
  return hand;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

size_t columns(const std::string& line) {  // code points
  size_t count = 0;
  for (const char c : line) count += (c & 0xC0) != 0x80;
  return count;
}

TEST(Timeline, FitsItsWidth) {
  const HandPlan hand = three_tiles();
  const Simulation result = simulate(hand.plan(), round_machine());
  for (const int width : {60, 80, 100, 140}) {
    for (const std::string& line : lines_of(draw_timeline(hand.plan(), result, width))) {
      if (line.find("total") == 0 || line.find("bars:") == 0) continue;  // prose
      EXPECT_LE(columns(line), static_cast<size_t>(width)) << line;
    }
  }
}

TEST(Timeline, ShowsBarsWhereLanesWork) {
  const HandPlan hand = three_tiles();
  const Simulation result = simulate(hand.plan(), round_machine());
  const auto lines = lines_of(draw_timeline(hand.plan(), result, 116, 2, true));
  std::string compute, comm, exposed;
  for (const std::string& line : lines) {
    if (line.find("  compute") == 0 && compute.empty()) compute = line.substr(10, 100);
    if (line.find("  comm") == 0) comm = line.substr(10, 100);
    if (line.find("exposed") == 0) exposed = line.substr(10, 100);
  }
  // The tile takes 10 us of 10 + 52.4.
  const size_t tile = static_cast<size_t>(100 * 10 / result.total_us);
  EXPECT_EQ(compute.substr(0, tile), std::string(tile, '@'));
  EXPECT_EQ(compute.substr(tile + 1), std::string(99 - tile, ' '));
  EXPECT_EQ(comm.substr(0, tile), std::string(tile, ' '));
  EXPECT_EQ(comm.substr(tile + 1), std::string(99 - tile, '@'));
  EXPECT_EQ(exposed.substr(tile + 1), std::string(99 - tile, '^'));
}

TEST(Timeline, KeepsToAsciiWhenAsked) {
  const HandPlan hand = three_tiles();
  const Simulation result = simulate(hand.plan(), round_machine());
  for (const char c : draw_timeline(hand.plan(), result, 100, 2, true)) {
    EXPECT_TRUE(c == '\n' || (c >= 32 && c < 127));
  }
}

TEST(Timeline, SaysHowManyRanksItLeavesOut) {
  const HandPlan hand = three_tiles();
  const Simulation result = simulate(hand.plan(), round_machine());
  const std::string chart = draw_timeline(hand.plan(), result, 100, 1);
  EXPECT_THAT(chart, HasSubstr("rank 0\n"));
  EXPECT_THAT(chart, Not(HasSubstr("rank 1\n")));
  EXPECT_THAT(chart, HasSubstr("and 1 more rank\n"));
}

TEST(Timeline, OfNothingIsASentence) {
  HandPlan hand(1);
  EXPECT_EQ(draw_timeline(hand.plan(), simulate(hand.plan(), round_machine())),
            "nothing takes time\n");
}

TEST(Timeline, TakesAnyWidth) {
  const HandPlan hand = three_tiles();
  const Simulation result = simulate(hand.plan(), round_machine());
  for (const int width : {-5, 0, 1, 40, 100000}) {
    EXPECT_FALSE(draw_timeline(hand.plan(), result, width, -1).empty());
  }
}

// A process has measured only its own ranks.
TEST(Timeline, RanksOfWhichNothingIsKnownExposeNothing) {
  const HandPlan hand = three_tiles();
  Timeline known;
  known.total_us = 10;
  known.spans.push_back({{0, 0}, 0, 10, {kNoLane, 0}});
  EXPECT_THAT(draw_timeline(hand.plan(), known, 116, 2, true), HasSubstr("   0 %\ntotal 10.0 us"));
}

TEST(Charts, HaveOneAxis) {
  const HandPlan hand = three_tiles();
  HandPlan tile(1);
  tile.gemm(tile.lane(0, LaneKind::compute), 0);
  const Simulation slow = simulate(hand.plan(), round_machine());
  const Simulation fast = simulate(tile.plan(), round_machine());
  Charts charts;
  charts.add("short", tile.plan(), fast);
  charts.add("long", hand.plan(), slow);
  std::vector<std::string> rows, exposed;
  for (const std::string& line : lines_of(charts.draw(116, 1, true))) {
    if (line.find("  compute") == 0) rows.push_back(line);
    if (line.find("exposed") == 0) exposed.push_back(line);
  }
  ASSERT_EQ(rows.size(), 2u);
  // Both have one tile, as long on the common axis; but it is all of the short run.
  EXPECT_EQ(rows[0].substr(0, 110), rows[1].substr(0, 110));
  EXPECT_THAT(rows[0], HasSubstr(" 100 %"));
  EXPECT_THAT(rows[1], Not(HasSubstr(" 100 %")));
  EXPECT_EQ(exposed[0].substr(10, 100), std::string(100, ' '));
  EXPECT_NE(exposed[1].substr(10, 100), std::string(100, ' '));
}

TEST(Charts, OfNothingAreASentence) { EXPECT_EQ(Charts().draw(), "nothing takes time\n"); }

}  // namespace
}  // namespace stretto

// LaneClocks against plain reachability in the event graph, on random histories.
#include "stretto/lane_clocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "order/plain_history.h"

namespace stretto {
namespace {

class LaneClocksRandom : public testing::TestWithParam<int> {};

TEST_P(LaneClocksRandom, AgreesWithReachability) {
  std::mt19937 rng(static_cast<unsigned>(GetParam()));
  auto pick = [&](int n) { return static_cast<int>(rng() % static_cast<unsigned>(n)); };
  const int ranks = 1 + pick(4);
  // Now and then more lanes than a block of a clock has.
  const bool many = GetParam() % 8 == 0;
  const int lanes_per_rank = (1 + pick(4)) * (many ? 25 : 1), steps = many ? 40 : 150;
  std::vector<uint16_t> lane_rank;
  for (int r = 0; r < ranks; ++r)
    lane_rank.insert(lane_rank.end(), static_cast<size_t>(lanes_per_rank),
                     static_cast<uint16_t>(r));
  LaneClocks clocks(lane_rank, ranks);
  PlainHistory plain(lane_rank, ranks);
  struct Seen {
    Event event;
    int node;
    uint32_t run;
  };
  std::vector<Seen> events;
  std::vector<uint32_t> runs(static_cast<size_t>(ranks), 0);
  auto see = [&](Event event, int node) {
    events.push_back({event, node, runs[lane_rank[event.lane]]});
  };
  // Whether the event `node` knows one of `rank` beyond the runs that it knows to have ended.
  auto hears = [&](int rank, int node) {
    uint32_t ended = 0;
    while (ended < runs[static_cast<size_t>(rank)] &&
           plain.precedes(plain.end_of(rank, ended), node)) {
      ++ended;
    }
    return std::any_of(events.begin(), events.end(), [&](const Seen& seen) {
      return lane_rank[seen.event.lane] == rank && seen.run >= ended && seen.node != node &&
             plain.precedes(seen.node, node);
    });
  };

  for (int step = 0; step < steps; ++step) {
    const int what = pick(20);
    if (what == 0) {
      const int rank = pick(ranks);
      clocks.end_run(rank);
      plain.end_run(rank);
      const uint32_t run = runs[static_cast<size_t>(rank)]++;
      for (int from = 0; from < ranks; ++from) {
        EXPECT_EQ(clocks.hears_by_end(from, rank), hears(from, plain.end_of(rank, run)));
      }
    } else if (what <= 2) {
      std::vector<uint32_t> lanes;
      for (uint32_t lane = 0; lane < lane_rank.size(); ++lane) {
        if (pick(2)) lanes.push_back(lane);
      }
      auto joined = clocks.join(lanes);
      auto nodes = plain.join(lanes);
      for (size_t i = 0; i < lanes.size(); ++i) see(joined[i], nodes[i]);
    } else {
      std::vector<Event> causes;
      std::vector<int> cause_nodes;
      for (int c = pick(3); c > 0 && !events.empty(); --c) {
        const Seen& seen = events[static_cast<size_t>(pick(static_cast<int>(events.size())))];
        causes.push_back(seen.event);
        cause_nodes.push_back(seen.node);
      }
      const auto lane = static_cast<uint32_t>(pick(static_cast<int>(lane_rank.size())));
      Event event = clocks.append(lane, causes);
      see(event, plain.append(lane, cause_nodes));
    }
  }
  for (const auto& [before, before_node, before_run] : events) {
    for (const auto& [after, after_node, after_run] : events) {
      EXPECT_EQ(clocks.precedes(before, after), plain.precedes(before_node, after_node))
          << "seed " << GetParam();
    }
    for (int rank = 0; rank < ranks; ++rank) {
      for (uint32_t run = 0; run < runs[static_cast<size_t>(rank)]; ++run) {
        EXPECT_EQ(clocks.run_precedes(rank, run, before),
                  plain.precedes(plain.end_of(rank, run), before_node));
      }
      // Not its own rank's: a lane's own past is not in its clock.
      if (lane_rank[before.lane] == rank || before_node % 8 != 0) continue;
      EXPECT_EQ(clocks.hears(rank, before), hears(rank, before_node)) << "seed " << GetParam();
    }
  }
}

// The same history told of all ranks, and of rank 0 for all of them.
TEST_P(LaneClocksRandom, OfAlikeRanksAreThoseOfRank0) {
  std::mt19937 rng(static_cast<unsigned>(GetParam()));
  auto pick = [&](int n) { return static_cast<int>(rng() % static_cast<unsigned>(n)); };
  const int ranks = 1 + pick(5);
  const auto lanes = static_cast<uint32_t>(GetParam() % 8 == 0 ? 50 : 1 + pick(4));
  std::vector<uint16_t> lane_rank;
  for (int r = 0; r < ranks; ++r) lane_rank.insert(lane_rank.end(), lanes, uint16_t(r));
  LaneClocks all(lane_rank, ranks), alike(lane_rank, ranks, true);
  auto turned = [&](Event event, int by) {
    const auto count = static_cast<uint32_t>(lane_rank.size());
    return Event{(event.lane + static_cast<uint32_t>(by) * lanes) % count, event.seq};
  };
  std::vector<Event> events;  // of rank 0
  for (int step = 0; step < 60; ++step) {
    const int what = pick(12);
    if (what == 0) {
      for (int rank = 0; rank < ranks; ++rank) all.end_run(rank);
      alike.end_run(0);
    } else if (what == 1) {
      std::vector<uint32_t> joined(lanes);
      for (int rank = ranks - 1; rank >= 0; --rank) {
        for (uint32_t i = 0; i < lanes; ++i) joined[i] = static_cast<uint32_t>(rank) * lanes + i;
        all.join(joined);
      }
      for (const Event& event : alike.join(joined)) events.push_back(event);
    } else {
      std::vector<Event> causes;
      for (int c = pick(3); c > 0 && !events.empty(); --c) {
        causes.push_back(turned(events[rng() % events.size()], pick(ranks)));
      }
      const auto lane = static_cast<uint32_t>(pick(static_cast<int>(lanes)));
      std::vector<uint32_t> news, expected;
      for (int rank = 0; rank < ranks; ++rank) {
        std::vector<Event> theirs;
        for (const Event& cause : causes) theirs.push_back(turned(cause, rank));
        all.append(turned({lane, 0}, rank).lane, theirs, rank == 0 ? &expected : nullptr);
      }
      events.push_back(alike.append(lane, causes, &news));
      EXPECT_EQ(news, expected) << "seed " << GetParam();
    }
  }
  for (const Event& home : events) {
    const Event after = turned(home, pick(ranks));
    for (const Event& other : events) {
      const Event before = turned(other, pick(ranks));
      EXPECT_EQ(alike.precedes(before, after), all.precedes(before, after))
          << "seed " << GetParam();
    }
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(alike.hears(rank, after), all.hears(rank, after)) << "seed " << GetParam();
      EXPECT_EQ(alike.run_precedes(rank, 0, after), all.run_precedes(rank, 0, after));
    }
  }
  for (int rank = 0; rank < ranks; ++rank) {
    for (int by = 0; by < ranks; ++by) {
      EXPECT_EQ(alike.hears_by_end(rank, by), all.hears_by_end(rank, by));
    }
  }
}

TEST(LaneClocks, TellsWhichCausesWereNews) {
  LaneClocks clocks({0, 0, 1, 1}, 2);
  const Event a = clocks.append(0);
  const Event b = clocks.append(1, std::vector{a});
  std::vector<uint32_t> news;
  clocks.append(2, std::vector{b, a}, &news);
  EXPECT_EQ(news, std::vector<uint32_t>{0});
  clocks.append(3, std::vector{a, b}, &news);
  EXPECT_EQ(news, (std::vector<uint32_t>{0, 1}));
  clocks.append(3, std::vector{a}, &news);
  EXPECT_TRUE(news.empty());
}

// Seqs that need more than 16 bits, with clocks from before and after the first of them.
TEST(LaneClocks, CountLongLanes) {
  LaneClocks clocks({0, 1, 1}, 2);
  std::vector<Event> sent, heard;
  for (int i = 0; i < 40000; ++i) {
    sent.push_back(clocks.append(0));
    if (i % 1000 == 0) heard.push_back(clocks.append(1, {{sent.back()}}));
  }
  const Event last = clocks.append(2, {{heard.back()}});
  for (size_t i = 0; i < heard.size(); ++i) {
    EXPECT_TRUE(clocks.precedes(sent[1000 * i], heard[i]));
    EXPECT_FALSE(clocks.precedes(sent[1000 * i + 1], heard[i]));
    EXPECT_TRUE(clocks.precedes(heard[i], last));
  }
  EXPECT_TRUE(clocks.precedes(sent[39000], last));
  EXPECT_FALSE(clocks.precedes(sent[39001], last));
}

INSTANTIATE_TEST_SUITE_P(Seeds, LaneClocksRandom, testing::Range(1, 120));

}  // namespace
}  // namespace stretto

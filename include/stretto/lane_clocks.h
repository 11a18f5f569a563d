// Happens-before between events of lanes, by sparse vector clocks.
//
// Events are appended lane by lane in any order that respects their causes. Runs (epochs) of one
// rank are stream-ordered; an event knows, besides what it was told by its causes, every event of
// its rank's earlier runs and everything those knew.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace stretto {

struct Event {
  uint32_t lane = 0;
  uint32_t seq = 0;  // position among the lane's events, counted through all runs, from 1
};

class LaneClocks {
 public:
  // lane_rank[l] is the rank that lane l belongs to.
  LaneClocks(std::vector<uint16_t> lane_rank, int ranks);

  // Appends an event to `lane`, after the lane's earlier ones and after all `causes`.
  Event append(uint32_t lane, std::span<const Event> causes = {});

  // Appends one event to each of `lanes` (a barrier): each comes after every event that any of them
  // had before. The new events are not ordered among themselves. Same order as `lanes`.
  std::vector<Event> join(std::span<const uint32_t> lanes);

  // The run of `rank` ends: all its lanes join; its next run begins with that knowledge.
  void end_run(int rank);

  // True when `before` happens before `after` in every execution (an event precedes itself).
  bool precedes(Event before, Event after) const;

  // True when the end of run number `run` (from 0) of `rank` happens before `after`.
  bool run_precedes(int rank, uint32_t run, Event after) const;

  // The last event of `lane`; seq 0 when it has none.
  Event last(uint32_t lane) const { return {lane, lane_events_[lane]}; }

  size_t num_bytes() const;  // memory in use

 private:
  struct Entry {
    uint32_t lane;
    uint32_t seq;
  };
  // What an event knows beyond its own lane's past: ended runs of every rank, and events of lanes
  // in runs that are not known to have ended. Knowing the end of a run implies, by construction,
  // knowing everything that was known there.
  struct Clock {
    std::vector<uint16_t> runs;  // by rank: number of runs known to have ended
    std::vector<Entry> entries;  // ascending lane
    uint32_t newest_run = 0;     // no entry is of a later run
  };
  // Clocks are shared: a lane's event has the clock of the lane's last change at or before it.
  struct Change {
    uint32_t seq;
    uint32_t clock;
  };

  uint32_t clock_index(Event event) const;
  uint32_t run_of(Event event) const;
  bool has_ended(const Clock& clock, Event event) const;
  bool knows(const Clock& clock, Event event) const;
  void drop_ended(Clock& clock) const;
  static void learn_runs(Clock& into, const Clock& from);
  void merge(Clock& into, const Clock& from) const;
  void set_entry(Clock& clock, Event event) const;

  std::vector<uint16_t> lane_rank_;
  std::vector<std::vector<uint32_t>> rank_lanes_;  // lanes of a rank
  std::vector<uint32_t> lane_events_;              // events so far, by lane
  std::vector<std::vector<Change>> changes_;       // by lane, ascending seq
  std::vector<std::vector<uint32_t>> run_ends_;    // by lane: last seq of each ended run
  std::vector<std::vector<uint32_t>> run_clocks_;  // by rank: clock index at the start of each run
  std::vector<Clock> clocks_;
};

}  // namespace stretto

// Happens-before between events of lanes, by sparse vector clocks.
//
// Events are appended lane by lane in any order that respects their causes. Runs (epochs) of one
// rank are stream-ordered; an event knows, besides what it was told by its causes, every event of
// its rank's earlier runs and everything those knew.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
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

  // Appends an event to `lane`, after the lane's earlier ones and after all `causes`. `news`, when
  // given, is filled with the indices of the causes that neither the lane nor, together, the causes
  // before them in the list knew.
  Event append(uint32_t lane, std::span<const Event> causes = {},
               std::vector<uint32_t>* news = nullptr);

  // Appends one event to each of `lanes` (a barrier): each comes after every event that any of them
  // had before. The new events are not ordered among themselves. Same order as `lanes`.
  std::vector<Event> join(std::span<const uint32_t> lanes);

  // The run of `rank` ends: all its lanes join; its next run begins with that knowledge.
  void end_run(int rank);

  // True when `before` happens before `after` in every execution (an event precedes itself).
  bool precedes(Event before, Event after) const;

  // True when the end of run number `run` (from 0) of `rank` happens before `after`.
  bool run_precedes(int rank, uint32_t run, Event after) const;

  // True when `after` knows an event of `rank` in a run that it does not know to have ended: so it
  // comes after the end of the run before that one.
  bool hears(int rank, Event after) const;
  // The same of the end of the last run of `by`.
  bool hears_by_end(int rank, int by) const;

  // The last event of `lane`; seq 0 when it has none.
  Event last(uint32_t lane) const { return {lane, lane_events_[lane]}; }

  size_t num_bytes() const;  // memory in use

 private:
  // What is known of kBlockLanes neighbouring lanes: a seq each. Never changed once a clock that
  // refers to it is kept, so clocks share blocks.
  static constexpr uint32_t kBlockLanes = 32;
  struct Block {
    std::array<int32_t, kBlockLanes> seqs{};
    uint32_t newest_run = 0;  // no seq is of a later run
  };
  struct BlockRef {
    uint32_t number;  // of lanes [number * kBlockLanes, ...)
    uint32_t block;   // in blocks_
  };
  // What an event knows beyond its own lane's past: ended runs of every rank, and events of lanes
  // in runs that are not known to have ended. Knowing the end of a run implies, by construction,
  // knowing everything that was known there.
  struct Clock {
    uint32_t runs = 0;             // in runs_: by rank, number of runs known to have ended
    std::vector<BlockRef> blocks;  // ascending number
    uint32_t newest_run = 0;       // no entry is of a later run
  };
  // Clocks are shared: a lane's event has the clock of the lane's last change at or before it.
  struct Change {
    uint32_t seq;
    uint32_t clock;
  };
  // A clock in the making. Blocks from `first_own` on are its own, to be changed in place.
  struct Draft {
    std::vector<uint16_t> runs;
    std::vector<BlockRef> blocks;
    uint32_t newest_run = 0;
    uint32_t first_own = 0;
  };

  uint32_t clock_index(Event event) const;
  uint32_t run_of(Event event) const;
  std::span<const uint16_t> runs_of(const Clock& clock) const;
  bool has_ended(std::span<const uint16_t> runs, Event event) const;
  bool knows(std::span<const uint16_t> runs, std::span<const BlockRef> blocks, Event event) const;
  bool knows(const Clock& clock, Event event) const;
  bool hears(int rank, const Clock& clock) const;

  void begin(const Clock& from);  // of draft_
  void learn_runs(const Clock& from);
  void merge(const Clock& from);
  void set_entry(Event event);
  void drop_ended();
  uint32_t keep(uint32_t runs_like);  // draft_ as a clock; its index
  Block& own_block(BlockRef& ref);

  size_t ranks_;
  std::vector<uint16_t> lane_rank_;
  std::vector<std::vector<uint32_t>> rank_lanes_;  // lanes of a rank
  std::vector<uint32_t> lane_events_;              // events so far, by lane
  std::vector<std::vector<Change>> changes_;       // by lane, ascending seq
  std::vector<std::vector<uint32_t>> run_ends_;    // by lane: last seq of each ended run
  std::vector<std::vector<uint32_t>> run_clocks_;  // by rank: clock index at the start of each run
  std::vector<Clock> clocks_;
  std::deque<Block> blocks_;
  std::vector<uint16_t> runs_;  // sets of counts by rank; the first is all zeros
  Draft draft_;
  std::vector<BlockRef> merged_;  // scratch of merge()
};

}  // namespace stretto

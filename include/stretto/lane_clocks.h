// Happens-before between events of lanes, by sparse vector clocks.
//
// Events are appended lane by lane in any order that respects their causes. Runs (epochs) of one
// rank are stream-ordered; an event knows, besides what it was told by its causes, every event of
// its rank's earlier runs and everything those knew.
#pragma once

#include <cstdint>
#include <memory>
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
  //
  // Where ranks are `alike`, rank r does what rank 0 does, with all ranks counted from r: then
  // events are appended to rank 0's lanes only, with all their causes, and each stands for those of
  // the same lane of every rank. Ranks then have equally many lanes.
  LaneClocks(std::vector<uint16_t> lane_rank, int ranks, bool alike = false);

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

  // The last event of `lane` that precedes `after`, by its seq; 0 where none does. All before it
  // do.
  uint32_t last_known(uint32_t lane, Event after) const;

  // Events of one rank with the same number know the same of other ranks.
  uint32_t knowledge(Event event) const { return view(event).clock; }

  // True when `after` knows an event of `rank` in a run that it does not know to have ended: so it
  // comes after the end of the run before that one.
  bool hears(int rank, Event after) const;
  // Whether that is so of the end of the last run of `by`.
  bool hears_by_end(int rank, int by) const;

  // The last event of `lane`; seq 0 when it has none.
  Event last(uint32_t lane) const { return {lane, lane_events_[home_[lane]]}; }

  size_t num_bytes() const;  // memory in use

 private:
  // What is known of some neighbouring lanes of a rank: a seq each, some of them not 0. A block is
  // not changed any more once a clock that refers to it is kept, so clocks share them.
  class Blocks {
   public:
    // Each of `lanes` lanes, a multiple of kStep.
    explicit Blocks(uint32_t lanes) : narrow_(lanes + 1), wide_(lanes + 1), newest_run_(lanes) {}
    static constexpr uint32_t kStep = 8;

    uint32_t lanes() const { return newest_run_; }  // of a block
    uint32_t count() const { return count_; }
    uint32_t add();                  // an empty one; its number
    uint32_t add_copy(uint32_t of);  // the same
    // Inline, as the next: every question about an order asks for some.
    uint32_t seq(uint32_t block, uint32_t lane) const {
      return static_cast<uint32_t>(is_wide_ ? wide_[block][lane] : narrow_[block][lane]);
    }
    // The latest run that a seq is of.
    uint32_t newest_run(uint32_t block) const { return seq(block, newest_run_); }
    void set(uint32_t block, uint32_t lane, uint32_t seq, uint32_t run);
    void learn(uint32_t block, uint32_t from);
    // The block is as it is to stay: the number of the equal one kept before; where there is none
    // it becomes number `as`, which is not above its own and whose content is no more needed.
    uint32_t keep(uint32_t block, uint32_t as);
    // Blocks from `count` on are no more needed.
    void drop_from(uint32_t count) { count_ = count; }
    size_t num_bytes() const;

   private:
    // Blocks stay where they are while more are added.
    static constexpr uint32_t kChunk = 256;
    template <typename Seq>
    class Chunks {
     public:
      explicit Chunks(uint32_t size) : size_(size) {}
      using Number = Seq;
      uint32_t size() const { return size_; }  // of a block
      // Makes sure of room for so many.
      void reserve(uint32_t count) {
        while (chunks_.size() * kChunk < count) {
          chunks_.push_back(std::make_unique_for_overwrite<Seq[]>(kChunk * size_));
        }
      }
      Seq* operator[](uint32_t number) {
        return chunks_[number / kChunk].get() + number % kChunk * size_;
      }
      const Seq* operator[](uint32_t number) const {
        return chunks_[number / kChunk].get() + number % kChunk * size_;
      }
      size_t num_bytes() const { return chunks_.size() * kChunk * size_ * sizeof(Seq); }

     private:
      uint32_t size_;
      std::vector<std::unique_ptr<Seq[]>> chunks_;
    };
    template <typename Visit>
    auto visit(const Visit& visit) {
      return is_wide_ ? visit(wide_) : visit(narrow_);
    }
    template <typename Visit>
    auto visit(const Visit& visit) const {
      return is_wide_ ? visit(wide_) : visit(narrow_);
    }
    uint32_t add_uninitialised();
    uint64_t hash(uint32_t block) const;
    bool equal(uint32_t a, uint32_t b) const;
    // Where in kept_ a block of this content stands or should stand.
    size_t place(uint32_t block) const;
    void grow_table();
    void widen();

    // Narrow until a seq is too large for it, which few plans have: half the room, and twice as
    // many are compared at once.
    Chunks<int16_t> narrow_;
    Chunks<int32_t> wide_;
    bool is_wide_ = false;
    uint32_t newest_run_;  // where in a block that is: behind its lanes
    uint32_t count_ = 0;
    // A hash table: 1 more than the number of a kept block, or 0.
    std::vector<uint32_t> kept_;
    size_t num_kept_ = 0;
  };
  // Which lanes, and which of them, a seq stands for.
  struct Slot {
    uint32_t block = 0, lane = 0;
  };
  struct BlockRef {
    uint32_t number;  // of the blocks that all ranks' lanes make, rank by rank
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
  // A clock as rank `rank` has it. Where ranks are alike, clocks are kept as rank 0 has them.
  struct View {
    uint32_t clock = 0;
    uint16_t rank = 0;
    bool operator==(const View&) const = default;
  };
  // A clock in the making. Blocks from `first_own` on are its own, to be changed in place.
  struct Draft {
    std::vector<uint16_t> runs;
    View runs_learnt;         // the last set of them (in runs_)
    uint32_t oldest_run = 0;  // of `runs`
    std::vector<BlockRef> blocks;
    uint32_t newest_run = 0;
    uint32_t first_own = 0;
  };

  uint16_t frame(uint32_t lane) const { return alike_ ? lane_rank_[lane] : uint16_t{0}; }
  View view(Event event) const;  // what the event knows
  // What is to rank 0 as `rank` is to `frame`.
  size_t seen_rank(int rank, uint16_t frame) const;
  uint32_t run_of(Event event) const;
  std::span<const uint16_t> runs_of(const Clock& clock) const;
  // `runs` and `blocks` are a clock as rank 0 has it, the event is asked for by rank `frame`.
  bool has_ended(std::span<const uint16_t> runs, Event event, uint16_t frame) const;
  bool knows(std::span<const uint16_t> runs, std::span<const BlockRef> blocks, Event event,
             uint16_t frame = 0) const;
  // What `blocks` say of the lane.
  uint32_t entry(std::span<const BlockRef> blocks, uint32_t lane, uint16_t frame) const;
  bool hears(size_t rank, const Clock& clock) const;

  void begin(const Clock& from);  // of draft_
  void learn_runs(View from);
  void find_oldest_run();  // once all runs are learnt
  void merge(View from);   // after that
  void set_entry(Event event);
  void drop_ended();
  uint32_t keep(uint32_t runs_like);  // draft_ as a clock; its index
  void make_own(BlockRef& ref);       // a block of draft_ that may be changed

  size_t ranks_;
  bool alike_;
  std::vector<uint16_t> lane_rank_;
  std::vector<std::vector<uint32_t>> rank_lanes_;  // lanes of a rank
  std::vector<uint32_t> home_;                // by lane: the one whose events stand for its own
  std::vector<Slot> slots_;                   // by lane
  std::vector<uint32_t> rank_blocks_;         // by rank: the number of its first block; then of all
  std::vector<uint16_t> block_rank_;          // by number
  std::vector<uint32_t> lane_events_;         // events so far, by lane
  std::vector<std::vector<Change>> changes_;  // by lane, ascending seq
  std::vector<std::vector<uint32_t>> run_ends_;    // by lane: last seq of each ended run
  std::vector<std::vector<uint32_t>> run_clocks_;  // by rank: clock index at the start of each run
  std::vector<Clock> clocks_;
  Blocks blocks_;
  std::vector<uint16_t> runs_;  // sets of counts by rank; the first is all zeros
  Draft draft_;
  std::vector<BlockRef> merged_;  // scratch of merge()
  std::vector<BlockRef*> own_;    // scratch of keep()
};

}  // namespace stretto

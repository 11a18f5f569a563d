// Events as they are appended, and what they know.
#include "stretto/lane_clocks.h"

#include <algorithm>

#include "stretto/error.h"

namespace stretto {
namespace {

// As many lanes as make the fewest blocks of any rank, none of more than kMost.
uint32_t block_lanes(std::span<const uint16_t> lane_rank, uint32_t step) {
  constexpr uint32_t kMost = 72;
  std::vector<uint32_t> lanes;
  uint32_t most = 1;
  for (const uint16_t rank : lane_rank) {
    if (rank >= lanes.size()) lanes.resize(rank + 1u, 0);
    most = std::max(most, ++lanes[rank]);
  }
  const uint32_t blocks = (most + kMost - 1) / kMost;
  const uint32_t each = (most + blocks - 1) / blocks;
  return (each + step - 1) / step * step;
}

}  // namespace

LaneClocks::LaneClocks(std::vector<uint16_t> lane_rank, int ranks, bool alike)
    : ranks_(static_cast<size_t>(ranks)),
      alike_(alike),
      lane_rank_(std::move(lane_rank)),
      rank_lanes_(ranks_),
      slots_(lane_rank_.size()),
      lane_events_(lane_rank_.size(), 0),
      changes_(lane_rank_.size(), {Change{0, 0}}),
      run_ends_(lane_rank_.size()),
      run_clocks_(ranks_, {0}),
      clocks_(1),
      blocks_(block_lanes(lane_rank_, Blocks::kStep)),
      runs_(ranks_, 0) {
  for (uint32_t lane = 0; lane < lane_rank_.size(); ++lane) {
    STRETTO_ASSERT(lane_rank_[lane] < ranks, "lane of an unknown rank");
    rank_lanes_[lane_rank_[lane]].push_back(lane);
    home_.push_back(lane);
  }
  const uint32_t most = blocks_.lanes();
  for (uint16_t rank = 0; rank < ranks; ++rank) {
    const std::vector<uint32_t>& lanes = rank_lanes_[rank];
    STRETTO_ASSERT(!alike || lanes.size() == rank_lanes_[0].size(), "alike ranks differ in lanes");
    const auto first = static_cast<uint32_t>(block_rank_.size());
    rank_blocks_.push_back(first);
    for (uint32_t i = 0; i < lanes.size(); ++i) {
      slots_[lanes[i]] = {first + i / most, i % most};
      if (alike) home_[lanes[i]] = rank_lanes_[0][i];
    }
    block_rank_.resize(first + (lanes.size() + most - 1) / most, rank);
  }
  rank_blocks_.push_back(static_cast<uint32_t>(block_rank_.size()));
}

LaneClocks::View LaneClocks::view(Event event) const {
  const std::vector<Change>& changes = changes_[home_[event.lane]];
  // Events near the end are asked for most.
  if (changes.back().seq <= event.seq) return {changes.back().clock, frame(event.lane)};
  auto after = std::upper_bound(changes.begin(), changes.end(), event.seq,
                                [](uint32_t seq, const Change& c) { return seq < c.seq; });
  return {std::prev(after)->clock, frame(event.lane)};
}

size_t LaneClocks::seen_rank(int rank, uint16_t frame) const {
  const auto r = static_cast<size_t>(rank);
  return r >= frame ? r - frame : r + ranks_ - frame;
}

uint32_t LaneClocks::run_of(Event event) const {
  const std::vector<uint32_t>& ends = run_ends_[home_[event.lane]];
  size_t run = ends.size();
  while (run > 0 && event.seq <= ends[run - 1]) --run;
  return static_cast<uint32_t>(run);
}

std::span<const uint16_t> LaneClocks::runs_of(const Clock& clock) const {
  return std::span(runs_).subspan(clock.runs * ranks_, ranks_);
}

bool LaneClocks::has_ended(std::span<const uint16_t> runs, Event event, uint16_t frame) const {
  const uint16_t ended = runs[seen_rank(lane_rank_[event.lane], frame)];
  return ended > 0 && event.seq <= run_ends_[home_[event.lane]][ended - 1u];
}

uint32_t LaneClocks::entry(std::span<const BlockRef> blocks, uint32_t lane, uint16_t frame) const {
  const Slot slot = slots_[lane];
  const uint16_t rank = lane_rank_[lane];
  const uint32_t number = slot.block - rank_blocks_[rank] + rank_blocks_[seen_rank(rank, frame)];
  const auto at = std::lower_bound(blocks.begin(), blocks.end(), number,
                                   [](const BlockRef& r, uint32_t n) { return r.number < n; });
  const bool is_there = at != blocks.end() && at->number == number;
  return is_there ? blocks_.seq(at->block, slot.lane) : 0;
}

bool LaneClocks::knows(std::span<const uint16_t> runs, std::span<const BlockRef> blocks,
                       Event event, uint16_t frame) const {
  return event.seq == 0 || has_ended(runs, event, frame) ||
         entry(blocks, event.lane, frame) >= event.seq;
}

Event LaneClocks::append(uint32_t lane, std::span<const Event> causes,
                         std::vector<uint32_t>* news) {
  if (news) news->clear();
  STRETTO_ASSERT(home_[lane] == lane, "rank 0's events stand for those of alike ranks");
  const uint32_t seq = ++lane_events_[lane];
  STRETTO_ASSERT(seq <= INT32_MAX, "a lane of more events than are counted");
  const uint32_t before = changes_[lane].back().clock;
  const std::span<const uint16_t> runs_before = runs_of(clocks_[before]);
  const bool any = std::any_of(causes.begin(), causes.end(), [&](const Event& cause) {
    return cause.lane != lane && !knows(runs_before, clocks_[before].blocks, cause);
  });
  if (!any) return {lane, seq};

  begin(clocks_[before]);
  // Runs first: what they settle need not be merged entry by entry.
  for (const Event& cause : causes) learn_runs(view(cause));
  find_oldest_run();
  if (!std::equal(draft_.runs.begin(), draft_.runs.end(), runs_before.begin())) drop_ended();
  std::vector<View> merged;
  for (size_t i = 0; i < causes.size(); ++i) {
    const Event& cause = causes[i];
    if (cause.lane == lane || knows(draft_.runs, draft_.blocks, cause)) continue;
    if (news) news->push_back(static_cast<uint32_t>(i));
    const View theirs = view(cause);
    const uint16_t rank = lane_rank_[cause.lane];
    const uint32_t run = run_of(cause);
    // The clock with which a run starts is implied by knowing that the run before it has ended.
    const bool starts = theirs.clock == run_clocks_[lane_rank_[home_[cause.lane]]][run];
    const bool implied = starts && runs_before[rank] >= run;
    if (!implied && std::find(merged.begin(), merged.end(), theirs) == merged.end()) {
      merge(theirs);
      merged.push_back(theirs);
    }
    set_entry(cause);
  }
  if (!merged.empty()) drop_ended();
  changes_[lane].push_back({seq, keep(clocks_[before].runs)});
  return {lane, seq};
}

std::vector<Event> LaneClocks::join(std::span<const uint32_t> lanes) {
  std::vector<Event> events;
  if (lanes.empty()) return events;
  uint32_t merged = changes_[lanes.front()].back().clock;
  const uint32_t runs = clocks_[merged].runs;
  begin(clocks_[merged]);
  for (uint32_t lane : lanes) learn_runs({changes_[lane].back().clock, 0});
  find_oldest_run();
  for (uint32_t lane : lanes) {
    const uint32_t theirs = changes_[lane].back().clock;
    if (theirs != merged) merge({theirs, 0});
    merged = theirs;
  }
  drop_ended();
  for (uint32_t lane : lanes) {
    const Event past = last(lane);
    if (past.seq > 0 && run_of(past) >= draft_.runs[lane_rank_[lane]]) set_entry(past);
  }
  const uint32_t index = keep(runs);
  for (uint32_t lane : lanes) {
    const uint32_t seq = ++lane_events_[lane];
    changes_[lane].push_back({seq, index});
    events.push_back({lane, seq});
  }
  return events;
}

void LaneClocks::end_run(int rank) {
  const auto r = static_cast<size_t>(rank);
  uint32_t merged = run_clocks_[r].back();
  const uint32_t runs = clocks_[merged].runs;
  begin(clocks_[merged]);
  // From here on the run counts as ended, so merging drops the entries of this rank's own lanes.
  for (uint32_t lane : rank_lanes_[r]) run_ends_[lane].push_back(lane_events_[lane]);
  draft_.runs[r] = static_cast<uint16_t>(draft_.runs[r] + 1);
  for (uint32_t lane : rank_lanes_[r]) learn_runs({changes_[lane].back().clock, 0});
  find_oldest_run();
  for (uint32_t lane : rank_lanes_[r]) {
    const uint32_t theirs = changes_[lane].back().clock;
    if (theirs != merged) merge({theirs, 0});
    merged = theirs;
  }
  drop_ended();
  const uint32_t index = keep(runs);
  run_clocks_[r].push_back(index);
  for (uint32_t lane : rank_lanes_[r]) changes_[lane].push_back({lane_events_[lane] + 1, index});
}

bool LaneClocks::precedes(Event before, Event after) const {
  if (before.lane == after.lane) return before.seq <= after.seq;
  const View known = view(after);
  const Clock& clock = clocks_[known.clock];
  return knows(runs_of(clock), clock.blocks, before, known.rank);
}

uint32_t LaneClocks::last_known(uint32_t lane, Event after) const {
  if (lane == after.lane) return after.seq;
  const View known = view(after);
  const Clock& clock = clocks_[known.clock];
  const uint16_t ended = runs_of(clock)[seen_rank(lane_rank_[lane], known.rank)];
  const uint32_t of_ended = ended > 0 ? run_ends_[home_[lane]][ended - 1u] : 0;
  return std::max(of_ended, entry(clock.blocks, lane, known.rank));
}

bool LaneClocks::run_precedes(int rank, uint32_t run, Event after) const {
  const View known = view(after);
  return runs_of(clocks_[known.clock])[seen_rank(rank, known.rank)] > run;
}

bool LaneClocks::hears(size_t rank, const Clock& clock) const {
  const uint16_t ended = runs_of(clock)[rank];
  auto ref = std::lower_bound(clock.blocks.begin(), clock.blocks.end(), rank_blocks_[rank],
                              [](const BlockRef& r, uint32_t number) { return r.number < number; });
  for (; ref != clock.blocks.end() && ref->number < rank_blocks_[rank + 1]; ++ref) {
    if (blocks_.newest_run(ref->block) >= ended) return true;
  }
  return false;
}

bool LaneClocks::hears(int rank, Event after) const {
  const View known = view(after);
  return hears(seen_rank(rank, known.rank), clocks_[known.clock]);
}

bool LaneClocks::hears_by_end(int rank, int by) const {
  const uint16_t frame = alike_ ? static_cast<uint16_t>(by) : uint16_t{0};
  const int home = alike_ ? 0 : by;
  return hears(seen_rank(rank, frame), clocks_[run_clocks_[static_cast<size_t>(home)].back()]);
}

size_t LaneClocks::num_bytes() const {
  size_t bytes = blocks_.num_bytes() + runs_.capacity() * sizeof(uint16_t);
  for (const Clock& clock : clocks_) {
    bytes += sizeof(Clock) + clock.blocks.capacity() * sizeof(BlockRef);
  }
  for (const auto& changes : changes_) bytes += changes.capacity() * sizeof(Change);
  return bytes;
}

}  // namespace stretto

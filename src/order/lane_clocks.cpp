#include "stretto/lane_clocks.h"

#include <algorithm>

#include "stretto/error.h"

namespace stretto {

LaneClocks::LaneClocks(std::vector<uint16_t> lane_rank, int ranks)
    : lane_rank_(std::move(lane_rank)),
      rank_lanes_(static_cast<size_t>(ranks)),
      lane_events_(lane_rank_.size(), 0),
      changes_(lane_rank_.size(), {Change{0, 0}}),
      run_ends_(lane_rank_.size()),
      run_clocks_(static_cast<size_t>(ranks), {0}) {
  clocks_.push_back(Clock{std::vector<uint16_t>(static_cast<size_t>(ranks), 0), {}, 0});
  for (uint32_t lane = 0; lane < lane_rank_.size(); ++lane) {
    STRETTO_ASSERT(lane_rank_[lane] < ranks, "lane of an unknown rank");
    rank_lanes_[lane_rank_[lane]].push_back(lane);
  }
}

uint32_t LaneClocks::clock_index(Event event) const {
  const std::vector<Change>& changes = changes_[event.lane];
  // Events near the end are asked for most.
  if (changes.back().seq <= event.seq) return changes.back().clock;
  auto after = std::upper_bound(changes.begin(), changes.end(), event.seq,
                                [](uint32_t seq, const Change& c) { return seq < c.seq; });
  return std::prev(after)->clock;
}

uint32_t LaneClocks::run_of(Event event) const {
  const std::vector<uint32_t>& ends = run_ends_[event.lane];
  size_t run = ends.size();
  while (run > 0 && event.seq <= ends[run - 1]) --run;
  return static_cast<uint32_t>(run);
}

bool LaneClocks::has_ended(const Clock& clock, Event event) const {
  const uint16_t runs = clock.runs[lane_rank_[event.lane]];
  return runs > 0 && event.seq <= run_ends_[event.lane][runs - 1u];
}

bool LaneClocks::knows(const Clock& clock, Event event) const {
  if (event.seq == 0 || has_ended(clock, event)) return true;
  auto at = std::lower_bound(clock.entries.begin(), clock.entries.end(), event.lane,
                             [](const Entry& e, uint32_t lane) { return e.lane < lane; });
  return at != clock.entries.end() && at->lane == event.lane && at->seq >= event.seq;
}

void LaneClocks::set_entry(Clock& clock, Event event) const {
  auto at = std::lower_bound(clock.entries.begin(), clock.entries.end(), event.lane,
                             [](const Entry& e, uint32_t lane) { return e.lane < lane; });
  if (at != clock.entries.end() && at->lane == event.lane) {
    at->seq = std::max(at->seq, event.seq);
  } else {
    clock.entries.insert(at, Entry{event.lane, event.seq});
  }
  clock.newest_run = std::max(clock.newest_run, run_of(event));
}

void LaneClocks::drop_ended(Clock& clock) const {
  std::erase_if(clock.entries, [&](const Entry& e) { return has_ended(clock, {e.lane, e.seq}); });
}

void LaneClocks::learn_runs(Clock& into, const Clock& from) {
  for (size_t rank = 0; rank < into.runs.size(); ++rank) {
    into.runs[rank] = std::max(into.runs[rank], from.runs[rank]);
  }
}

void LaneClocks::merge(Clock& into, const Clock& from) const {
  learn_runs(into, from);
  // Events of runs known to have ended need no entries; the caller drops those that remain.
  const uint32_t oldest = *std::min_element(into.runs.begin(), into.runs.end());
  if (from.entries.empty() || from.newest_run < oldest) return;
  into.newest_run = std::max(into.newest_run, from.newest_run);
  std::vector<Entry> merged(into.entries.size() + from.entries.size());
  auto out = merged.begin();
  auto a = into.entries.begin();
  auto b = from.entries.begin();
  while (a != into.entries.end() && b != from.entries.end()) {
    const uint32_t lane = std::min(a->lane, b->lane);
    const bool ours = a->lane == lane, theirs = b->lane == lane;
    *out++ = Entry{lane, std::max(ours ? a->seq : 0, theirs ? b->seq : 0)};
    a += ours;
    b += theirs;
  }
  out = std::copy(a, into.entries.end(), out);
  out = std::copy(b, from.entries.end(), out);
  merged.erase(out, merged.end());
  into.entries = std::move(merged);
}

Event LaneClocks::append(uint32_t lane, std::span<const Event> causes) {
  const uint32_t seq = ++lane_events_[lane];
  const uint32_t before = changes_[lane].back().clock;
  const bool news = std::any_of(causes.begin(), causes.end(), [&](const Event& cause) {
    return cause.lane != lane && !knows(clocks_[before], cause);
  });
  if (!news) return {lane, seq};

  Clock clock = clocks_[before];
  // Runs first: what they settle need not be merged entry by entry.
  for (const Event& cause : causes) learn_runs(clock, clocks_[clock_index(cause)]);
  if (clock.runs != clocks_[before].runs) drop_ended(clock);
  std::vector<uint32_t> merged;
  for (const Event& cause : causes) {
    if (cause.lane == lane || knows(clock, cause)) continue;
    const uint32_t theirs = clock_index(cause);
    const uint16_t rank = lane_rank_[cause.lane];
    const uint32_t run = run_of(cause);
    // The clock with which a run starts is implied by knowing that the run before it has ended.
    const bool implied = theirs == run_clocks_[rank][run] && clocks_[before].runs[rank] >= run;
    if (!implied && std::find(merged.begin(), merged.end(), theirs) == merged.end()) {
      merge(clock, clocks_[theirs]);
      merged.push_back(theirs);
    }
    set_entry(clock, cause);
  }
  if (!merged.empty()) drop_ended(clock);
  changes_[lane].push_back({seq, static_cast<uint32_t>(clocks_.size())});
  clocks_.push_back(std::move(clock));
  return {lane, seq};
}

std::vector<Event> LaneClocks::join(std::span<const uint32_t> lanes) {
  std::vector<Event> events;
  if (lanes.empty()) return events;
  Clock clock = clocks_[changes_[lanes.front()].back().clock];
  uint32_t merged = changes_[lanes.front()].back().clock;
  for (uint32_t lane : lanes) {
    const uint32_t theirs = changes_[lane].back().clock;
    if (theirs != merged) merge(clock, clocks_[theirs]);
    merged = theirs;
  }
  drop_ended(clock);
  for (uint32_t lane : lanes) {
    const Event past = last(lane);
    if (past.seq > 0 && run_of(past) >= clock.runs[lane_rank_[lane]]) set_entry(clock, past);
  }
  const uint32_t index = static_cast<uint32_t>(clocks_.size());
  clocks_.push_back(std::move(clock));
  for (uint32_t lane : lanes) {
    const uint32_t seq = ++lane_events_[lane];
    changes_[lane].push_back({seq, index});
    events.push_back({lane, seq});
  }
  return events;
}

void LaneClocks::end_run(int rank) {
  const auto r = static_cast<size_t>(rank);
  Clock clock = clocks_[run_clocks_[r].back()];
  uint32_t merged = run_clocks_[r].back();
  // From here on the run counts as ended, so merging drops the entries of this rank's own lanes.
  for (uint32_t lane : rank_lanes_[r]) run_ends_[lane].push_back(lane_events_[lane]);
  clock.runs[r] = static_cast<uint16_t>(clock.runs[r] + 1);
  for (uint32_t lane : rank_lanes_[r]) {
    const uint32_t theirs = changes_[lane].back().clock;
    if (theirs != merged) merge(clock, clocks_[theirs]);
    merged = theirs;
  }
  drop_ended(clock);
  const uint32_t index = static_cast<uint32_t>(clocks_.size());
  clocks_.push_back(std::move(clock));
  run_clocks_[r].push_back(index);
  for (uint32_t lane : rank_lanes_[r]) changes_[lane].push_back({lane_events_[lane] + 1, index});
}

bool LaneClocks::precedes(Event before, Event after) const {
  if (before.lane == after.lane) return before.seq <= after.seq;
  return knows(clocks_[clock_index(after)], before);
}

bool LaneClocks::run_precedes(int rank, uint32_t run, Event after) const {
  return clocks_[clock_index(after)].runs[static_cast<size_t>(rank)] > run;
}

size_t LaneClocks::num_bytes() const {
  size_t bytes = 0;
  for (const Clock& clock : clocks_) {
    bytes += sizeof(Clock) + clock.runs.capacity() * sizeof(uint16_t) +
             clock.entries.capacity() * sizeof(Entry);
  }
  for (const auto& changes : changes_) bytes += changes.capacity() * sizeof(Change);
  return bytes;
}

}  // namespace stretto

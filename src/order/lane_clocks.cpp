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
  clocks_.push_back(Clock{std::vector<uint16_t>(static_cast<size_t>(ranks), 0), {}});
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

bool LaneClocks::knows(const Clock& clock, Event event) const {
  if (event.seq == 0 || run_of(event) < clock.runs[lane_rank_[event.lane]]) return true;
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
}

void LaneClocks::merge(Clock& into, const Clock& from) const {
  for (size_t rank = 0; rank < into.runs.size(); ++rank) {
    into.runs[rank] = std::max(into.runs[rank], from.runs[rank]);
  }
  if (from.entries.empty()) return;
  std::vector<Entry> merged;
  merged.reserve(into.entries.size() + from.entries.size());
  auto a = into.entries.begin();
  auto b = from.entries.begin();
  auto keep = [&](Entry entry) {
    // Events of runs known to have ended need no entry of their own.
    if (run_of({entry.lane, entry.seq}) >= into.runs[lane_rank_[entry.lane]]) {
      merged.push_back(entry);
    }
  };
  while (a != into.entries.end() || b != from.entries.end()) {
    if (b == from.entries.end() || (a != into.entries.end() && a->lane < b->lane)) {
      keep(*a++);
    } else if (a == into.entries.end() || b->lane < a->lane) {
      keep(*b++);
    } else {
      keep(Entry{a->lane, std::max(a->seq, b->seq)});
      ++a;
      ++b;
    }
  }
  into.entries = std::move(merged);
}

void LaneClocks::learn(Clock& clock, Event event) const {
  const uint32_t theirs = clock_index(event);
  const uint16_t rank = lane_rank_[event.lane];
  const uint32_t run = run_of(event);
  // The clock with which a run starts is implied by knowing that the run before it has ended.
  const bool implied = theirs == run_clocks_[rank][run] && clock.runs[rank] >= run;
  if (!implied) merge(clock, clocks_[theirs]);
  if (run >= clock.runs[rank]) set_entry(clock, event);
}

Event LaneClocks::append(uint32_t lane, std::span<const Event> causes) {
  const uint32_t seq = ++lane_events_[lane];
  const uint32_t before = changes_[lane].back().clock;
  bool news = false;
  for (const Event& cause : causes) {
    news = news || (cause.lane != lane && !knows(clocks_[before], cause));
  }
  if (news) {
    Clock clock = clocks_[before];
    for (const Event& cause : causes) {
      if (cause.lane != lane && !knows(clock, cause)) learn(clock, cause);
    }
    changes_[lane].push_back({seq, static_cast<uint32_t>(clocks_.size())});
    clocks_.push_back(std::move(clock));
  }
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
  std::erase_if(clock.entries, [&](const Entry& e) {
    return run_of({e.lane, e.seq}) < clock.runs[lane_rank_[e.lane]];
  });
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

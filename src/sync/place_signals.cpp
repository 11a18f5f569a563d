// place_signals: every wait and notify of a plan, derived from what its tasks read and write.
#include <algorithm>
#include <map>
#include <optional>
#include <span>

#include "core/counting_sort.h"
#include "stretto/lower.h"
#include "sync/alike_signals.h"
#include "sync/edges.h"
#include "sync/lane_writer.h"

namespace stretto {
namespace {

// A wait or notify to insert beside an instruction of the program.
struct Insertion {
  uint32_t at = 0;
  uint32_t counter = 0;  // in SignalWriter::counters_
};

class SignalWriter {
 public:
  SignalWriter(Draft& draft, size_t num_ends, size_t num_counters) : draft_(draft) {
    counters_.reserve(num_counters);
    waits_.reserve(num_ends);
    notifies_.reserve(num_ends);
  }

  // The array of that name, declared when it is new.
  uint16_t array(const std::string& name, uint8_t copies) {
    const auto [at, is_new] = arrays_.try_emplace(name, static_cast<uint16_t>(arrays_.size()));
    if (is_new) {
      draft_.plan.signals.push_back({name, 0, copies});
      used_.emplace_back(static_cast<size_t>(draft_.plan.ranks()), 0);
    }
    return at->second;
  }

  // Gives the group a counter of `array` in the memory of `rank` and makes its ends use it.
  void add(uint16_t array, uint8_t lag, uint16_t rank, std::span<const uint32_t> releases,
           std::span<const uint32_t> acquires) {
    const auto counter = static_cast<uint32_t>(counters_.size());
    counters_.push_back(
        {next_signal(array, rank), rank, lag, static_cast<int64_t>(releases.size())});
    for (const uint32_t acquire : acquires) waits_.push_back({acquire, counter});
    for (const uint32_t release : releases) notifies_.push_back({release, counter});
  }

  // Rewrites the lanes with the insertions in their places, and the operands lane by lane.
  void write() {
    std::vector<size_t> first;  // by lane: of its instructions, lane by lane
    size_t count = 0;
    for (const Lane& lane : draft_.plan.lanes) {
      first.push_back(count);
      count += lane.instrs.size();
    }
    const auto place = [&](const Insertion& insertion) {
      const InstrRef& ref = draft_.program[insertion.at];
      return first[ref.lane] + ref.pos;
    };
    const Sorted<Insertion> waits(waits_, count, place);
    Sorted<Insertion> notifies(notifies_, count, place);
    LaneWriter lanes(draft_.plan);
    for (size_t lane = 0; lane < first.size(); ++lane) {
      write_lane(draft_.plan.lanes[lane], first[lane], waits, notifies, lanes);
    }
    lanes.finish();
    draft_.program.clear();  // its positions are no longer those of the lanes
  }

 private:
  struct Counter {
    SignalRef signal;
    uint16_t rank;  // in whose memory
    uint8_t lag;
    int64_t releases;
  };

  SignalRef next_signal(uint16_t array, uint16_t rank) {
    const int32_t index = used_[array][rank]++;
    SignalArray& declared = draft_.plan.signals[array];
    declared.count = std::max(declared.count, index + 1);
    return {array, index};
  }

  void write_lane(Lane& lane, size_t first, const Sorted<Insertion>& waits,
                  Sorted<Insertion>& notifies, LaneWriter& lanes) const {
    const size_t end = first + lane.instrs.size();
    lanes.write(
        lane, waits.count(first, end) + notifies.count(first, end),
        [&](size_t pos, std::vector<Instr>& instrs) {
          for (const Insertion& one : waits.bucket(first + pos)) {
            const Counter& counter = counters_[one.counter];
            append_wait(instrs, counter.signal, counter.releases, counter.lag);
          }
        },
        [&](size_t pos, std::vector<Instr>& instrs) {
          const std::span<Insertion> after = notifies.bucket(first + pos);
          if (after.size() > 1) sort_by_distance(after);
          for (const Insertion& one : after) {
            append_notify(instrs, counters_[one.counter].signal, counters_[one.counter].rank);
          }
        });
  }

  // Destinations in turn, beginning with the next rank, so that no rank hears from all at once.
  void sort_by_distance(std::span<Insertion> notifies) const {
    std::sort(notifies.begin(), notifies.end(), [&](const Insertion& a, const Insertion& b) {
      const int x = distance(a), y = distance(b);
      return x != y ? x < y : a.counter < b.counter;
    });
  }
  int distance(const Insertion& notify) const {
    const int from = draft_.plan.lanes[draft_.program[notify.at].lane].rank;
    const int ranks = draft_.plan.ranks();
    return (counters_[notify.counter].rank - from + ranks) % ranks;
  }

  Draft& draft_;
  std::map<std::string, uint16_t> arrays_;
  std::vector<std::vector<int32_t>> used_;  // counters in use, by array and rank
  std::vector<Counter> counters_;
  std::vector<Insertion> waits_, notifies_;
};

}  // namespace

void place_signals(Draft& draft) {
  const SyncPoints points = find_sync_points(draft);
  const Dependences dependences = find_dependences(draft);
  const PointEdges needed(draft, dependences, points);
  RunHistory history(draft, needed.alike);
  const std::vector<SyncEdge> edges = reduce_to_edges(needed, history);
  SignalGroups groups(draft, edges, needed.alike);
  const std::vector<Ack> acks = find_acks(draft, dependences, points, edges, groups, history);
  if (needed.alike != nullptr) {
    if (acks.empty()) return write_alike_signals(draft, groups, *needed.alike);
    groups = groups.of_all_ranks();
  }

  SignalWriter signals(draft, groups.all().size(), groups.all().size() + acks.size());
  for (const Ack& ack : acks) {
    signals.add(signals.array("ack", 1), ack.lag, ack.to, ack.releases, ack.acquires);
  }
  std::vector<std::optional<uint16_t>> arrays(draft.plan.buffers.size());
  for (const SignalGroups::Group& group : groups.all()) {
    const Buffer& buffer = draft.plan.buffers[group.buffer];
    std::optional<uint16_t>& array = arrays[group.buffer];
    if (!array) array = signals.array(buffer.name, buffer.copies);
    signals.add(*array, 0, group.rank, groups.releases(group), groups.acquires(group));
  }
  signals.write();
}

}  // namespace stretto

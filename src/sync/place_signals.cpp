// place_signals: every wait and notify of a plan, derived from what its tasks read and write.
#include <algorithm>
#include <map>
#include <span>

#include "stretto/lower.h"
#include "sync/counting_sort.h"
#include "sync/edges.h"

namespace stretto {
namespace {

// A wait or notify to insert beside an instruction of the program.
struct Insertion {
  uint32_t at = 0;
  uint32_t counter = 0;  // in SignalWriter::counters_
};

class SignalWriter {
 public:
  SignalWriter(Draft& draft, size_t num_ends) : draft_(draft) {
    waits_.reserve(num_ends);
    notifies_.reserve(num_ends);
  }

  // Gives the group a counter of `array` in the memory of `rank` and makes its ends use it.
  void add(const std::string& array, uint8_t copies, uint8_t lag, uint16_t rank,
           std::span<const uint32_t> releases, std::span<const uint32_t> acquires) {
    const auto counter = static_cast<uint32_t>(counters_.size());
    counters_.push_back(
        {next_signal(array, copies, rank), rank, lag, static_cast<int64_t>(releases.size())});
    for (const uint32_t acquire : acquires) waits_.push_back({acquire, counter});
    for (const uint32_t release : releases) notifies_.push_back({release, counter});
  }

  // Rewrites the lanes with the insertions in their places.
  void write() {
    const std::vector<InstrRef>& program = draft_.program;
    const auto place = [](const Insertion& insertion) { return insertion.at; };
    Sorted<Insertion> waits(waits_, program.size(), place);
    Sorted<Insertion> notifies(notifies_, program.size(), place);
    std::vector<std::vector<Instr>> lanes(draft_.plan.lanes.size());
    std::vector<size_t> added(lanes.size(), 0);
    for (const Insertion& wait : waits_) ++added[program[wait.at].lane];
    for (const Insertion& notify : notifies_) ++added[program[notify.at].lane];
    for (size_t lane = 0; lane < lanes.size(); ++lane) {
      lanes[lane].reserve(draft_.plan.lanes[lane].instrs.size() + added[lane]);
    }
    for (uint32_t at = 0; at < program.size(); ++at) {
      const InstrRef ref = program[at];
      std::vector<Instr>& lane = lanes[ref.lane];
      for (const Insertion& one : waits.bucket(at)) {
        const Counter& counter = counters_[one.counter];
        Instr& wait = lane.emplace_back();
        wait.op = Opcode::wait;
        wait.signal = counter.signal;
        wait.amount = counter.releases;
        wait.lag = counter.lag;
      }
      lane.push_back(draft_.plan.lanes[ref.lane].instrs[ref.pos]);
      const std::span<Insertion> after = notifies.bucket(at);
      // Destinations in turn, beginning with the next rank, so that no rank hears from all at once.
      std::sort(after.begin(), after.end(), [&](const Insertion& a, const Insertion& b) {
        const int x = distance(a), y = distance(b);
        return x != y ? x < y : a.counter < b.counter;
      });
      for (const Insertion& one : after) {
        Instr& notify = lane.emplace_back();
        notify.op = Opcode::notify;
        notify.signal = counters_[one.counter].signal;
        notify.rank = counters_[one.counter].rank;
        notify.amount = 1;
      }
    }
    for (size_t lane = 0; lane < lanes.size(); ++lane) {
      draft_.plan.lanes[lane].instrs = std::move(lanes[lane]);
    }
    draft_.program.clear();  // its positions are no longer those of the lanes
  }

 private:
  struct Counter {
    SignalRef signal;
    uint16_t rank;  // in whose memory
    uint8_t lag;
    int64_t releases;
  };

  SignalRef next_signal(const std::string& array, uint8_t copies, uint16_t rank) {
    auto [at, is_new] = arrays_.try_emplace(array, static_cast<uint16_t>(arrays_.size()));
    if (is_new) {
      draft_.plan.signals.push_back({array, 0, copies});
      used_.emplace_back(static_cast<size_t>(draft_.plan.ranks()), 0);
    }
    const uint16_t id = at->second;
    const int32_t index = used_[id][rank]++;
    SignalArray& declared = draft_.plan.signals[id];
    declared.count = std::max(declared.count, index + 1);
    return {id, index};
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
  const std::vector<Dependence> dependences = find_dependences(draft);
  const PointEdges needed(draft, dependences, points);
  Timeline timeline(draft, needed.alike_ranks());
  const std::vector<SyncEdge> edges = reduce_to_edges(needed, timeline);
  const SignalGroups groups(draft, edges);
  const std::vector<Ack> acks = find_acks(draft, dependences, points, edges, groups, timeline);

  SignalWriter signals(draft, edges.size());
  for (const Ack& ack : acks) signals.add("ack", 1, ack.lag, ack.to, ack.releases, ack.acquires);
  for (const SignalGroups::Group& group : groups.all()) {
    const Buffer& buffer = draft.plan.buffers[group.buffer];
    signals.add(buffer.name, buffer.copies, 0, group.rank, groups.releases(group),
                groups.acquires(group));
  }
  signals.write();
}

}  // namespace stretto

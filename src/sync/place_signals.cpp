// place_signals: every wait and notify of a plan, derived from what its tasks read and write.
#include <algorithm>
#include <map>

#include "stretto/lower.h"
#include "sync/edges.h"

namespace stretto {
namespace {

// Synchronisation to insert beside an instruction of the program.
struct Insertion {
  uint32_t at = 0;
  Instr instr;
};

class SignalWriter {
 public:
  explicit SignalWriter(Draft& draft) : draft_(draft) {}

  // Gives the group a counter of `array` in the memory of `rank` and makes its ends use it.
  void add(const std::string& array, uint8_t copies, uint8_t lag, uint16_t rank,
           const std::vector<uint32_t>& releases, const std::vector<uint32_t>& acquires) {
    const SignalRef signal = next_signal(array, copies, rank);
    for (uint32_t acquire : acquires) {
      Instr wait;
      wait.op = Opcode::wait;
      wait.signal = signal;
      wait.amount = static_cast<int64_t>(releases.size());
      wait.lag = lag;
      waits_.push_back({acquire, wait});
    }
    for (uint32_t release : releases) {
      Instr notify;
      notify.op = Opcode::notify;
      notify.signal = signal;
      notify.rank = rank;
      notify.amount = 1;
      notifies_.push_back({release, notify});
    }
  }

  // Rewrites the lanes with the insertions in their places.
  void write() {
    auto by_place = [](const Insertion& a, const Insertion& b) { return a.at < b.at; };
    std::stable_sort(waits_.begin(), waits_.end(), by_place);
    std::stable_sort(notifies_.begin(), notifies_.end(),
                     [&](const Insertion& a, const Insertion& b) {
                       // Destinations in turn, beginning with the next rank, so that no rank hears
                       // from all at once.
                       return a.at != b.at ? a.at < b.at : distance(a) < distance(b);
                     });
    std::vector<std::vector<Instr>> lanes(draft_.plan.lanes.size());
    for (size_t lane = 0; lane < lanes.size(); ++lane) {
      lanes[lane].reserve(draft_.plan.lanes[lane].instrs.size() * 2);
    }
    auto wait = waits_.begin();
    auto notify = notifies_.begin();
    for (uint32_t at = 0; at < draft_.program.size(); ++at) {
      const InstrRef ref = draft_.program[at];
      std::vector<Instr>& lane = lanes[ref.lane];
      for (; wait != waits_.end() && wait->at == at; ++wait) lane.push_back(wait->instr);
      lane.push_back(draft_.plan.lanes[ref.lane].instrs[ref.pos]);
      for (; notify != notifies_.end() && notify->at == at; ++notify) lane.push_back(notify->instr);
    }
    for (size_t lane = 0; lane < lanes.size(); ++lane) {
      draft_.plan.lanes[lane].instrs = std::move(lanes[lane]);
    }
    draft_.program.clear();  // its positions are no longer those of the lanes
  }

 private:
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
    return (notify.instr.rank - from + ranks) % ranks;
  }

  Draft& draft_;
  std::map<std::string, uint16_t> arrays_;
  std::vector<std::vector<int32_t>> used_;  // counters in use, by array and rank
  std::vector<Insertion> waits_, notifies_;
};

}  // namespace

void place_signals(Draft& draft) {
  const SyncPoints points = find_sync_points(draft);
  const std::vector<Dependence> dependences = find_dependences(draft);
  Timeline timeline(draft);
  const std::vector<SyncEdge> edges = reduce_to_edges(draft, dependences, points, timeline);
  const std::vector<SignalGroup> groups = group_edges(draft, edges);
  const std::vector<Ack> acks = find_acks(draft, dependences, points, edges, groups, timeline);

  SignalWriter signals(draft);
  for (const Ack& ack : acks) signals.add("ack", 1, ack.lag, ack.to, ack.releases, ack.acquires);
  for (const SignalGroup& group : groups) {
    const Buffer& buffer = draft.plan.buffers[group.buffer];
    signals.add(buffer.name, buffer.copies, 0, group.rank, group.releases, group.acquires);
  }
  signals.write();
}

}  // namespace stretto

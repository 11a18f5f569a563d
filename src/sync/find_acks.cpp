// What reuse across runs needs: who must hear from whom before it writes again.
#include <algorithm>
#include <map>
#include <set>

#include "stretto/error.h"
#include "sync/edges.h"
#include "sync/timeline.h"

namespace stretto {
namespace {

// In run e + lag, `writer` must come after `reader` of run e. Both are sync points: the reader's
// release point and the writer's acquire point. Ranks differ, or stream order would settle it.
struct Hazard {
  uint32_t reader = 0, writer = 0;
  uint8_t lag = 1;
  auto operator<=>(const Hazard&) const = default;
};

class RepeatedRuns {
 public:
  RepeatedRuns(const Draft& draft, const std::vector<SyncEdge>& edges, Timeline& timeline)
      : draft_(draft),
        timeline_(timeline),
        ranks_(static_cast<size_t>(draft.plan.ranks())),
        hears_(ranks_ * ranks_),
        answers_(timeline.alike() != nullptr ? draft.program.size() : 0, Answer::none) {
    for (size_t rank = 0; rank < ranks_; ++rank) {
      for (size_t from = 0; from < ranks_; ++from) {
        hears_[rank * ranks_ + from] =
            timeline.clocks().hears_by_end(static_cast<int>(from), static_cast<int>(rank));
      }
    }
    rank_of_.reserve(draft.program.size());
    for (const InstrRef& ref : draft.program) {
      rank_of_.push_back(draft.plan.lanes[ref.lane].rank);
    }
    take_edges(edges);
  }

  // What is waited for.
  void take_edges(const std::vector<SyncEdge>& edges) {
    starts_.assign(draft_.program.size() + 1, 0);
    releases_.clear();
    releases_.reserve(edges.size());
    for (const SyncEdge& edge : edges) {
      releases_.push_back(edge.release);
      ++starts_[edge.acquire + 1];
    }
    for (size_t i = 1; i < starts_.size(); ++i) starts_[i] += starts_[i - 1];
  }

  uint16_t rank_of(uint32_t at) const { return rank_of_[at]; }

  std::span<const uint32_t> releases_for(uint32_t at) const {
    return std::span(releases_).subspan(starts_[at], starts_[at + 1] - starts_[at]);
  }

  // True when all that `before` does in a run ends before all that `after` does `lag` runs later:
  // of one rank by stream order; of two when the run between has heard from the other, whose run
  // before that had ended then.
  bool ordered(uint16_t before, uint16_t after, uint8_t lag) const {
    return before == after || (lag > 1 && hears_[after * ranks_ + before]);
  }

  // True when what `rank` did in earlier runs precedes `after`, which has heard from it in its own.
  bool hears(uint16_t rank, uint32_t after) {
    const AlikeRanks* alike = timeline_.alike();
    if (alike == nullptr) return asks(rank, after);
    // Rank 0 hears from the rank that is to it as `rank` is to the instruction's.
    const auto own = static_cast<size_t>(alike->rank_of(after));
    const size_t seen = rank >= own ? rank - own : rank + ranks_ - own;
    Answer& answer = answers_[alike->index_of(after) * ranks_ + seen];
    if (answer == Answer::none) answer = asks(rank, after) ? Answer::yes : Answer::no;
    return answer == Answer::yes;
  }

  // True when `before` in a run precedes `after` in the run `lag` later, without acknowledgements.
  bool precedes(uint32_t before, uint32_t after, uint8_t lag) {
    if (ordered(rank_of(before), rank_of(after), lag) || hears(rank_of(before), after)) return true;
    run_until(lag);
    return timeline_.clocks().precedes(timeline_.event(0, before), timeline_.event(lag, after));
  }

 private:
  enum class Answer : uint8_t { none, no, yes };

  bool asks(uint16_t rank, uint32_t after) const {
    return timeline_.clocks().hears(rank, timeline_.event(0, after));
  }
  void run_until(int last) {
    std::vector<Event> causes;
    while (timeline_.runs() <= last) {
      const int run = timeline_.runs();
      timeline_.run([&](uint32_t at) { return releases_for(at); },
                    [&](uint32_t at) -> std::span<const Event> {
                      causes.clear();
                      for (uint32_t release : releases_for(at)) {
                        causes.push_back(timeline_.event(run, release));
                      }
                      return causes;
                    });
    }
  }

  const Draft& draft_;
  Timeline& timeline_;
  const size_t ranks_;
  std::vector<bool> hears_;
  std::vector<Answer> answers_;  // where ranks are alike: of hears(), by rank 0's instruction, rank
  std::vector<uint16_t> rank_of_;  // by position
  std::vector<uint32_t> releases_;
  std::vector<size_t> starts_;
};

// Overwriting data that a peer reads: the dependences of one run, turned round.
std::vector<Hazard> data_hazards(const Draft& draft, const std::vector<Dependence>& dependences,
                                 const SyncPoints& points, RepeatedRuns& runs) {
  std::vector<Hazard> hazards;
  for (const Dependence& d : dependences) {
    const uint8_t lag = draft.plan.buffers[d.buffer].copies;
    const uint16_t reader = runs.rank_of(d.after);
    const uint32_t writer = points.acquire[d.before];
    if (runs.ordered(reader, runs.rank_of(d.before), lag) || runs.hears(reader, writer)) continue;
    hazards.push_back({points.release[d.after], writer, lag});
  }
  std::sort(hazards.begin(), hazards.end());
  hazards.erase(std::unique(hazards.begin(), hazards.end()), hazards.end());
  return hazards;
}

// Counting too early: a notify of a later run that could pass a wait on a counter of several ranks
// before the slower of them has counted. Within one rank stream order keeps runs apart.
void add_signal_hazards(const Draft& draft, const SignalGroups& groups, const SyncPoints& points,
                        RepeatedRuns& runs, std::vector<Hazard>& hazards) {
  for (const SignalGroups::Group& group : groups.all()) {
    if (group.num_releases == 1) continue;
    const uint8_t lag = draft.plan.buffers[group.buffer].copies;
    const std::span<const uint32_t> releases = groups.releases(group);
    const bool one_rank = std::all_of(releases.begin(), releases.end(), [&](uint32_t r) {
      return runs.rank_of(r) == runs.rank_of(releases.front());
    });
    if (one_rank) continue;
    for (uint32_t notifier : releases) {
      if (runs.rank_of(notifier) == group.rank) continue;
      const bool after_all = std::all_of(releases.begin(), releases.end(), [&](uint32_t r) {
        return runs.precedes(r, notifier, lag);
      });
      if (after_all) continue;
      for (uint32_t waiter : groups.acquires(group)) {
        hazards.push_back({points.release[waiter], points.acquire[notifier], lag});
      }
    }
  }
}

// Those that nothing settles.
std::vector<Hazard> open_hazards(const Draft& draft, const std::vector<Dependence>& dependences,
                                 const SyncPoints& points, const SignalGroups& groups,
                                 RepeatedRuns& runs) {
  std::vector<Hazard> hazards = data_hazards(draft, dependences, points, runs);
  add_signal_hazards(draft, groups, points, runs, hazards);
  std::erase_if(hazards, [&](const Hazard& h) { return runs.precedes(h.reader, h.writer, h.lag); });
  return hazards;
}

// The acknowledgements that settle the open hazards: from each reading rank to each writing rank,
// after the last such read of every reading lane.
std::map<std::pair<uint16_t, uint16_t>, Ack> ack_sources(const Draft& draft,
                                                         const RepeatedRuns& runs,
                                                         const std::vector<Hazard>& open) {
  std::map<std::pair<uint16_t, uint16_t>, std::map<uint32_t, uint32_t>> last_reads;
  std::map<std::pair<uint16_t, uint16_t>, Ack> acks;
  for (const Hazard& hazard : open) {
    const std::pair key{runs.rank_of(hazard.writer), runs.rank_of(hazard.reader)};
    auto [ack, is_new] = acks.try_emplace(key, Ack{key.second, key.first, hazard.lag, {}, {}});
    ack->second.lag = std::min(ack->second.lag, hazard.lag);
    uint32_t& last =
        last_reads[key].try_emplace(draft.program[hazard.reader].lane, hazard.reader).first->second;
    if (draft.program[last].pos < draft.program[hazard.reader].pos) last = hazard.reader;
  }
  for (auto& [key, ack] : acks) {
    for (const auto& [lane, read] : last_reads[key]) ack.releases.push_back(read);
  }
  return acks;
}

}  // namespace

std::vector<Ack> find_acks(const Draft& draft, const Dependences& dependences,
                           const SyncPoints& points, const std::vector<SyncEdge>& edges,
                           const SignalGroups& groups, Timeline& first_run) {
  const AlikeRanks* alike = first_run.alike();
  RepeatedRuns runs(draft, edges, first_run);
  // Where ranks are alike, those of rank 0 stand for the others while there are none.
  std::vector<Hazard> hazards = open_hazards(draft, dependences.all, points, groups, runs);

  // The caller reads outputs after the run, which no acknowledgement inside a run can tell.
  for (uint32_t lane = 0; lane < draft.plan.lanes.size(); ++lane) {
    const Lane& own = draft.plan.lanes[lane];
    if (alike != nullptr && own.rank > 0) break;
    for (uint32_t pos = 0; pos < own.instrs.size(); ++pos) {
      if (!own.instrs[pos].is_task()) continue;
      for (const Region& region : draft.plan.writes(own.instrs[pos])) {
        STRETTO_ASSERT(region.rank == own.rank || region.empty() ||
                           draft.plan.buffers[region.buffer].role != BufferRole::output ||
                           runs.hears(region.rank, first_run.position(lane, pos)),
                       "a remote write of an output does not follow from its rank's work");
      }
    }
  }
  if (hazards.empty()) return {};
  if (alike != nullptr) {
    hazards = open_hazards(draft, of_all_ranks(dependences), points, groups.of_all_ranks(), runs);
    runs.take_edges(of_all_ranks(edges, alike));
  }

  auto acks = ack_sources(draft, runs, hazards);
  std::sort(hazards.begin(), hazards.end(),
            [](const Hazard& a, const Hazard& b) { return a.writer < b.writer; });
  std::map<std::pair<uint16_t, uint16_t>, std::set<uint32_t>> acquires;
  uint8_t last_run = 1;
  for (const Buffer& buffer : draft.plan.buffers) last_run = std::max(last_run, buffer.copies);
  Timeline timeline(draft);
  std::vector<Event> causes;
  for (int run = 0; run <= last_run; ++run) {
    timeline.run(
        [&](uint32_t at) { return runs.releases_for(at); },
        [&](uint32_t at) -> std::span<const Event> {
          causes.clear();
          for (uint32_t release : runs.releases_for(at)) {
            causes.push_back(timeline.event(run, release));
          }
          const LaneClocks& clocks = timeline.clocks();
          const Event before = clocks.last(draft.program[at].lane);
          auto known = [&](Event event) {
            return clocks.precedes(event, before) ||
                   std::any_of(causes.begin(), causes.end(),
                               [&](Event cause) { return clocks.precedes(event, cause); });
          };
          auto hazard =
              std::lower_bound(hazards.begin(), hazards.end(), at,
                               [](const Hazard& h, uint32_t writer) { return h.writer < writer; });
          for (; hazard != hazards.end() && hazard->writer == at; ++hazard) {
            const std::pair key{runs.rank_of(hazard->writer), runs.rank_of(hazard->reader)};
            const Ack& ack = acks.at(key);
            if (run < ack.lag || known(timeline.event(run - ack.lag, hazard->reader))) continue;
            for (uint32_t release : ack.releases) {
              causes.push_back(timeline.event(run - ack.lag, release));
            }
            acquires[key].insert(at);
          }
          return causes;
        });
  }
  std::vector<Ack> result;
  for (auto& [key, ack] : acks) {
    ack.acquires.assign(acquires[key].begin(), acquires[key].end());
    if (!ack.acquires.empty()) result.push_back(std::move(ack));
  }
  return result;
}

}  // namespace stretto

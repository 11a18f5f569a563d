// What reuse across runs needs: who must hear from whom before it writes again.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "plan/tile_task.h"
#include "stretto/derive.h"
#include "sync/repeated_runs.h"

namespace stretto {
namespace {

// In run e + lag, `writer` must come after `reader` of run e. Both are sync points: the reader's
// release point and the writer's acquire point. Ranks differ, or stream order would settle it.
struct Hazard {
  uint32_t reader = 0, writer = 0;
  uint8_t lag = 1;
  auto operator<=>(const Hazard&) const = default;
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
    const std::span<const uint32_t> acquires = groups.acquires(group);
    // Who waits for the counter waits for all releases.
    const auto is_after_all = [&](uint32_t notifier) {
      return std::any_of(acquires.begin(), acquires.end(),
                         [&](uint32_t at) { return runs.precedes(at, notifier, lag); }) ||
             std::all_of(releases.begin(), releases.end(),
                         [&](uint32_t at) { return runs.precedes(at, notifier, lag); });
    };
    // Most notifiers of a rank know the same, and there may be as many as there are releases.
    std::map<RepeatedRuns::Knowledge, bool> after_all;
    for (uint32_t notifier : releases) {
      if (runs.precedes_all(group.rank, notifier, lag)) continue;
      const auto [known, is_new] = after_all.try_emplace(runs.knowledge(notifier, lag), false);
      if (is_new) known->second = is_after_all(notifier);
      if (known->second) continue;
      for (uint32_t waiter : acquires) {
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

using WriterAndReader = std::pair<uint16_t, uint16_t>;  // ranks
using Acks = std::map<WriterAndReader, Ack>;

WriterAndReader ranks_of(const Hazard& hazard, const RepeatedRuns& runs) {
  return {runs.rank_of(hazard.writer), runs.rank_of(hazard.reader)};
}

// Behind what goes on with the product's tile in registers, which a notify between would keep from
// it. The writer waits in a later run, so that it is told later holds up nobody.
uint32_t behind_tile(const Draft& draft, const RunHistory& history, uint32_t read) {
  const InstrRef& ref = draft.program[read];
  const std::vector<Instr>& instrs = draft.plan.lanes[ref.lane].instrs;
  if (!is_product(instrs[ref.pos].op)) return read;
  uint32_t last = ref.pos;
  while (last + 1 < instrs.size() && follows_product(instrs[last + 1].op)) ++last;
  return history.position(ref.lane, last);
}

// The acknowledgements that settle the open hazards: from each reading rank to each writing rank,
// after the last such read of every reading lane.
Acks ack_sources(const Draft& draft, const RepeatedRuns& runs, const RunHistory& history,
                 const std::vector<Hazard>& open) {
  std::map<WriterAndReader, std::map<uint32_t, uint32_t>> last_reads;
  Acks acks;
  for (const Hazard& hazard : open) {
    const WriterAndReader key = ranks_of(hazard, runs);
    auto [ack, is_new] = acks.try_emplace(key, Ack{key.second, key.first, hazard.lag, {}, {}});
    ack->second.lag = std::min(ack->second.lag, hazard.lag);
    uint32_t& last =
        last_reads[key].try_emplace(draft.program[hazard.reader].lane, hazard.reader).first->second;
    if (draft.program[last].pos < draft.program[hazard.reader].pos) last = hazard.reader;
  }
  for (auto& [key, ack] : acks) {
    for (const auto& [lane, read] : last_reads[key]) {
      ack.releases.push_back(behind_tile(draft, history, read));
    }
  }
  return acks;
}

// Where the writers wait for them: before each open hazard that nothing else settles by then.
void add_acquires(const Draft& draft, const RepeatedRuns& runs, std::vector<Hazard> hazards,
                  Acks& acks) {
  std::sort(hazards.begin(), hazards.end(),
            [](const Hazard& a, const Hazard& b) { return a.writer < b.writer; });
  std::map<WriterAndReader, std::set<uint32_t>> acquires;
  uint8_t last_run = 1;
  for (const Buffer& buffer : draft.plan.buffers) last_run = std::max(last_run, buffer.copies);
  // Every writer that waits for an acknowledgement waits for all its releases, and those of one
  // reader's acknowledgements to several writers are often the same.
  std::map<std::vector<uint32_t>, uint32_t> numbers;
  std::vector<std::vector<uint32_t>> joints;
  std::map<WriterAndReader, uint32_t> joint_of;
  for (const auto& [key, ack] : acks) {
    const auto [found, is_new] =
        numbers.try_emplace(ack.releases, static_cast<uint32_t>(joints.size()));
    if (is_new) joints.push_back(ack.releases);
    joint_of[key] = found->second;
  }
  RunHistory history(draft, nullptr, std::move(joints));
  std::vector<Event> causes;
  for (int run = 0; run <= last_run; ++run) {
    const auto causes_of = [&](uint32_t at) -> std::span<const Event> {
      causes.clear();
      for (uint32_t release : runs.releases_for(at)) {
        causes.push_back(history.event(run, release));
      }
      const LaneClocks& clocks = history.clocks();
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
        const WriterAndReader key = ranks_of(*hazard, runs);
        const Ack& ack = acks.at(key);
        if (run < ack.lag || known(history.event(run - ack.lag, hazard->reader))) {
          continue;
        }
        causes.push_back(history.joint(run - ack.lag, joint_of.at(key)));
        acquires[key].insert(at);
      }
      return causes;
    };
    history.run([&](uint32_t at) { return runs.releases_for(at); }, causes_of);
  }
  for (auto& [key, ack] : acks) ack.acquires.assign(acquires[key].begin(), acquires[key].end());
}

// The caller reads outputs after the run, which no acknowledgement inside a run can tell.
void expect_outputs_to_follow(const Draft& draft, const RunHistory& first_run, RepeatedRuns& runs) {
  const Plan& plan = draft.plan;
  for (uint32_t lane = 0; lane < plan.lanes.size(); ++lane) {
    const Lane& own = plan.lanes[lane];
    if (first_run.alike() != nullptr && own.rank > 0) break;
    for (uint32_t pos = 0; pos < own.instrs.size(); ++pos) {
      if (!own.instrs[pos].is_task()) continue;
      for (const Region& region : plan.writes(own.instrs[pos])) {
        if (region.rank == own.rank || region.empty() ||
            plan.buffers[region.buffer].role != BufferRole::output ||
            runs.hears(region.rank, first_run.position(lane, pos))) {
          continue;
        }
        throw UnorderedPlan(
            fmt::format("{} instruction {} writes {}, and nothing that it waits for says that rank "
                        "{}'s run has begun, so its caller may still read the last one's: let it "
                        "take something that rank {} makes, or write to a symmetric buffer",
                        describe(own), pos, describe(plan, region), region.rank, region.rank),
            InstrRef{lane, pos});
      }
    }
  }
}

}  // namespace

std::vector<Ack> find_acks(const Draft& draft, const Dependences& dependences,
                           const SyncPoints& points, const std::vector<SyncEdge>& edges,
                           const SignalGroups& groups, RunHistory& first_run) {
  const AlikeRanks* alike = first_run.alike();
  RepeatedRuns runs(draft, edges, first_run);
  // Where ranks are alike, those of rank 0 stand for the others while there are none.
  std::vector<Hazard> hazards = open_hazards(draft, dependences.all, points, groups, runs);

  expect_outputs_to_follow(draft, first_run, runs);
  if (hazards.empty()) return {};
  if (alike != nullptr) {
    hazards = open_hazards(draft, of_all_ranks(dependences), points, groups.of_all_ranks(), runs);
    runs.take_edges(of_all_ranks(edges, alike));
  }

  Acks acks = ack_sources(draft, runs, first_run, hazards);
  add_acquires(draft, runs, hazards, acks);
  std::vector<Ack> result;
  for (auto& [key, ack] : acks) {
    if (!ack.acquires.empty()) result.push_back(std::move(ack));
  }
  return result;
}

}  // namespace stretto

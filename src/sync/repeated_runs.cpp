#include "sync/repeated_runs.h"

namespace stretto {

RepeatedRuns::RepeatedRuns(const Draft& draft, const std::vector<SyncEdge>& edges,
                           RunHistory& history)
    : draft_(draft),
      history_(history),
      ranks_(static_cast<size_t>(draft.plan.ranks())),
      hears_(ranks_ * ranks_),
      answers_(history.alike() != nullptr ? draft.program.size() : 0, Answer::none) {
  for (size_t rank = 0; rank < ranks_; ++rank) {
    for (size_t from = 0; from < ranks_; ++from) {
      hears_[rank * ranks_ + from] =
          history.clocks().hears_by_end(static_cast<int>(from), static_cast<int>(rank));
    }
  }
  rank_of_.reserve(draft.program.size());
  for (const InstrRef& ref : draft.program) {
    rank_of_.push_back(draft.plan.lanes[ref.lane].rank);
  }
  take_edges(edges);
}

void RepeatedRuns::take_edges(const std::vector<SyncEdge>& edges) {
  starts_.assign(draft_.program.size() + 1, 0);
  releases_.clear();
  releases_.reserve(edges.size());
  for (const SyncEdge& edge : edges) {
    releases_.push_back(edge.release);
    ++starts_[edge.acquire + 1];
  }
  for (size_t i = 1; i < starts_.size(); ++i) starts_[i] += starts_[i - 1];
}

bool RepeatedRuns::hears(uint16_t rank, uint32_t after) {
  const AlikeRanks* alike = history_.alike();
  if (alike == nullptr) return asks(rank, after);
  // Rank 0 hears from the rank that is to it as `rank` is to the instruction's.
  const auto own = static_cast<size_t>(alike->rank_of(after));
  const size_t seen = rank >= own ? rank - own : rank + ranks_ - own;
  Answer& answer = answers_[alike->index_of(after) * ranks_ + seen];
  if (answer == Answer::none) answer = asks(rank, after) ? Answer::yes : Answer::no;
  return answer == Answer::yes;
}

bool RepeatedRuns::precedes(uint32_t before, uint32_t after, uint8_t lag) {
  if (precedes_all(rank_of(before), after, lag)) return true;
  run_until(lag);
  return history_.clocks().precedes(history_.event(0, before), history_.event(lag, after));
}

RepeatedRuns::Knowledge RepeatedRuns::knowledge(uint32_t after, uint8_t lag) {
  run_until(lag);
  const LaneClocks& clocks = history_.clocks();
  return {rank_of(after), clocks.knowledge(history_.event(0, after)),
          clocks.knowledge(history_.event(lag, after))};
}

void RepeatedRuns::run_until(int last) {
  std::vector<Event> causes;
  while (history_.runs() <= last) {
    const int run = history_.runs();
    history_.run([&](uint32_t at) { return releases_for(at); },
                 [&](uint32_t at) -> std::span<const Event> {
                   causes.clear();
                   for (uint32_t release : releases_for(at)) {
                     causes.push_back(history_.event(run, release));
                   }
                   return causes;
                 });
  }
}

}  // namespace stretto

// Which releases share a counter.
#include <algorithm>
#include <tuple>

#include "sync/edges.h"

namespace stretto {

SignalGroups::SignalGroups(const Draft& draft, const std::vector<SyncEdge>& edges) {
  // First what each release is waited for by, rank by rank.
  struct RankEdge {
    SyncEdge edge;
    uint16_t rank;  // of the acquire
    auto key() const { return std::tuple(edge.release, rank, edge.buffer, edge.acquire); }
  };
  std::vector<RankEdge> by_release;
  by_release.reserve(edges.size());
  for (const SyncEdge& edge : edges) {
    by_release.push_back({edge, draft.plan.lanes[draft.program[edge.acquire].lane].rank});
  }
  std::sort(by_release.begin(), by_release.end(),
            [](const RankEdge& a, const RankEdge& b) { return a.key() < b.key(); });
  releases_.reserve(edges.size());
  acquires_.reserve(edges.size());
  for (const auto& [edge, rank] : by_release) {
    if (groups_.empty() || releases_.back() != edge.release || groups_.back().rank != rank ||
        groups_.back().buffer != edge.buffer) {
      groups_.push_back({rank, edge.buffer, static_cast<uint32_t>(releases_.size()),
                         static_cast<uint32_t>(acquires_.size()), 1, 0});
      releases_.push_back(edge.release);
    }
    acquires_.push_back(edge.acquire);
    ++groups_.back().num_acquires;
  }
  const auto same_acquires = [&](const Group& a, const Group& b) {
    const auto x = acquires(a), y = acquires(b);
    return std::equal(x.begin(), x.end(), y.begin(), y.end());
  };
  std::sort(groups_.begin(), groups_.end(), [&](const Group& a, const Group& b) {
    if (a.rank != b.rank) return a.rank < b.rank;
    if (a.buffer != b.buffer) return a.buffer < b.buffer;
    const auto x = acquires(a), y = acquires(b);
    if (x[0] != y[0]) return x[0] < y[0];
    if (!same_acquires(a, b)) {
      return std::lexicographical_compare(x.begin(), x.end(), y.begin(), y.end());
    }
    return releases(a)[0] < releases(b)[0];
  });
  if (draft.schedule.sync == Sync::flag) return;

  // Then releases with the same consumers share a counter.
  std::vector<Group> shared;
  std::vector<uint32_t> shared_releases;
  for (const Group& group : groups_) {
    const bool joins = !shared.empty() && shared.back().rank == group.rank &&
                       shared.back().buffer == group.buffer && same_acquires(shared.back(), group);
    if (!joins) {
      shared.push_back(group);
      shared.back().first_release = static_cast<uint32_t>(shared_releases.size());
      shared.back().num_releases = 0;
    }
    shared_releases.push_back(releases(group)[0]);
    ++shared.back().num_releases;
  }
  groups_ = std::move(shared);
  releases_ = std::move(shared_releases);
}

}  // namespace stretto

// Which releases share a counter.
#include <algorithm>
#include <tuple>

#include "sync/edges.h"

namespace stretto {

SignalGroups::SignalGroups(const Draft& draft, const std::vector<SyncEdge>& edges) {
  const auto lane_of = [&](uint32_t at) -> const Lane& {
    return draft.plan.lanes[draft.program[at].lane];
  };
  // First what each release is waited for by, rank by rank.
  struct RankEdge {
    SyncEdge edge;
    uint16_t rank;  // of the acquire
    auto key() const { return std::tuple(edge.release, rank, edge.buffer, edge.acquire); }
  };
  std::vector<RankEdge> by_release;
  by_release.reserve(edges.size());
  for (const SyncEdge& edge : edges) {
    by_release.push_back({edge, lane_of(edge.acquire).rank});
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
  // A copy engine can notify by a copy where nobody else adds to the counter; other releases may
  // share one.
  constexpr uint32_t kAnyLane = ~0u;
  const auto sole_lane = [&](const Group& group) {
    const uint32_t release = releases(group)[0];
    return lane_of(release).kind == LaneKind::copy ? draft.program[release].lane : kAnyLane;
  };
  std::sort(groups_.begin(), groups_.end(), [&](const Group& a, const Group& b) {
    if (a.rank != b.rank) return a.rank < b.rank;
    if (a.buffer != b.buffer) return a.buffer < b.buffer;
    const auto x = acquires(a), y = acquires(b);
    if (x[0] != y[0]) return x[0] < y[0];
    if (!same_acquires(a, b)) {
      return std::lexicographical_compare(x.begin(), x.end(), y.begin(), y.end());
    }
    const uint32_t lane_a = sole_lane(a), lane_b = sole_lane(b);
    return lane_a != lane_b ? lane_a < lane_b : releases(a)[0] < releases(b)[0];
  });

  // Then releases with the same consumers share a counter. With flags only those that copy lanes
  // alone wait for: each wait is an operation of their stream, and they need all of them anyway.
  const auto shares = [&](const Group& group) {
    const auto waits_in_stream = [&](uint32_t at) { return lane_of(at).kind == LaneKind::copy; };
    const std::span<const uint32_t> waiters = acquires(group);
    return draft.schedule.sync != Sync::flag ||
           std::all_of(waiters.begin(), waiters.end(), waits_in_stream);
  };
  std::vector<Group> shared;
  std::vector<uint32_t> shared_releases;
  uint32_t last_lane = kAnyLane;  // of the last of them
  for (const Group& group : groups_) {
    const bool joins = !shared.empty() && shared.back().rank == group.rank &&
                       shared.back().buffer == group.buffer && shares(group) &&
                       same_acquires(shared.back(), group) && last_lane == sole_lane(group);
    if (!joins) {
      shared.push_back(group);
      shared.back().first_release = static_cast<uint32_t>(shared_releases.size());
      shared.back().num_releases = 0;
    }
    last_lane = sole_lane(group);
    shared_releases.push_back(releases(group)[0]);
    ++shared.back().num_releases;
  }
  groups_ = std::move(shared);
  releases_ = std::move(shared_releases);
}

}  // namespace stretto

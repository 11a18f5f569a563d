// Which releases share a counter.
#include <algorithm>
#include <tuple>

#include "core/counting_sort.h"
#include "sync/edges.h"

namespace stretto {

SignalGroups::SignalGroups(const Draft& draft, const std::vector<SyncEdge>& edges) {
  const size_t num_places = draft.program.size();
  // By place: its rank, and its lane where that is one of a copy engine.
  constexpr uint32_t kAnyLane = ~0u;
  std::vector<uint16_t> ranks(num_places);
  std::vector<uint32_t> copy_lanes(num_places);
  for (size_t at = 0; at < num_places; ++at) {
    const uint32_t index = draft.program[at].lane;
    const Lane& lane = draft.plan.lanes[index];
    ranks[at] = lane.rank;
    copy_lanes[at] = lane.kind == LaneKind::copy ? index : kAnyLane;
  }
  const auto rank_of = [&](uint32_t at) { return ranks[at]; };
  // First what each release is waited for by, rank by rank.
  Sorted<SyncEdge> by_release(edges, num_places, [](const SyncEdge& edge) { return edge.release; });
  releases_.reserve(edges.size());
  acquires_.reserve(edges.size());
  for (uint32_t at = 0; at < num_places; ++at) {
    const std::span<SyncEdge> of_one = by_release.bucket(at);
    std::sort(of_one.begin(), of_one.end(), [&](const SyncEdge& a, const SyncEdge& b) {
      return std::tuple(rank_of(a.acquire), a.buffer, a.acquire) <
             std::tuple(rank_of(b.acquire), b.buffer, b.acquire);
    });
    for (const SyncEdge& edge : of_one) {
      const uint16_t rank = rank_of(edge.acquire);
      if (groups_.empty() || releases_.back() != edge.release || groups_.back().rank != rank ||
          groups_.back().buffer != edge.buffer) {
        groups_.push_back({rank, edge.buffer, static_cast<uint32_t>(releases_.size()),
                           static_cast<uint32_t>(acquires_.size()), 1, 0});
        releases_.push_back(edge.release);
      }
      acquires_.push_back(edge.acquire);
      ++groups_.back().num_acquires;
    }
  }
  // Then by place: rank and buffer, acquires, copy lane, releases; they come in this last order.
  const auto same_acquires = [&](const Group& a, const Group& b) {
    const auto x = acquires(a), y = acquires(b);
    return std::equal(x.begin(), x.end(), y.begin(), y.end());
  };
  // A copy engine can notify by a copy where nobody else adds to the counter; other releases may
  // share one.
  const auto sole_lane = [&](const Group& group) { return copy_lanes[releases(group)[0]]; };
  Sorted<Group> by_acquire(groups_, num_places,
                           [&](const Group& group) { return acquires(group)[0]; });
  const size_t num_buffers = draft.plan.buffers.size();
  Sorted<Group> by_place(
      by_acquire.all(), num_buffers * static_cast<size_t>(draft.plan.ranks()),
      [&](const Group& group) { return group.rank * num_buffers + group.buffer; });
  groups_ = std::move(by_place.all());
  // Those that begin with the same acquire may go on with others.
  for (size_t first = 0, last = 0; first < groups_.size(); first = last) {
    const Group& one = groups_[first];
    bool alike = true;
    for (last = first; last < groups_.size(); ++last) {
      const Group& other = groups_[last];
      if (other.rank != one.rank || other.buffer != one.buffer ||
          acquires(other)[0] != acquires(one)[0]) {
        break;
      }
      alike = alike && same_acquires(one, other) && sole_lane(one) == sole_lane(other);
    }
    if (alike) continue;
    std::stable_sort(groups_.begin() + static_cast<std::ptrdiff_t>(first),
                     groups_.begin() + static_cast<std::ptrdiff_t>(last),
                     [&](const Group& a, const Group& b) {
                       if (same_acquires(a, b)) return sole_lane(a) < sole_lane(b);
                       const auto x = acquires(a), y = acquires(b);
                       return std::lexicographical_compare(x.begin(), x.end(), y.begin(), y.end());
                     });
  }

  // Then releases with the same consumers share a counter. With flags only those that copy lanes
  // alone wait for: each wait is an operation of their stream, and they need all of them anyway.
  const auto shares = [&](const Group& group) {
    const auto waits_in_stream = [&](uint32_t at) { return copy_lanes[at] != kAnyLane; };
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

// Which releases share a counter.
#include <algorithm>
#include <tuple>

#include "core/counting_sort.h"
#include "sync/edges.h"

namespace stretto {

namespace {

constexpr uint32_t kAnyLane = ~0u;

}  // namespace

class SignalGroups::Places {
 public:
  explicit Places(const Draft& draft)
      : num_buffers_(draft.plan.buffers.size()),
        ranks_(draft.program.size()),
        copy_lanes_(draft.program.size()) {
    for (size_t at = 0; at < ranks_.size(); ++at) {
      const uint32_t index = draft.program[at].lane;
      const Lane& lane = draft.plan.lanes[index];
      ranks_[at] = lane.rank;
      copy_lanes_[at] = lane.kind == LaneKind::copy ? index : kAnyLane;
    }
  }

  size_t count() const { return ranks_.size(); }
  size_t num_buffers() const { return num_buffers_; }
  uint16_t rank_of(uint32_t at) const { return ranks_[at]; }
  // Its lane where that is one of a copy engine: such can notify by a copy where nobody else adds
  // to the counter. Other releases may share one.
  uint32_t sole_lane(uint32_t at) const { return copy_lanes_[at]; }
  bool waits_in_stream(uint32_t at) const { return copy_lanes_[at] != kAnyLane; }

 private:
  size_t num_buffers_;
  std::vector<uint16_t> ranks_;  // by position
  std::vector<uint32_t> copy_lanes_;
};

SignalGroups::SignalGroups(const Draft& draft, const std::vector<SyncEdge>& edges,
                           const AlikeRanks* alike) {
  const Places places(draft);
  find(places, edges);
  if (alike != nullptr) turn(places, *alike);
  const bool any_streams =
      std::any_of(draft.plan.lanes.begin(), draft.plan.lanes.end(),
                  [](const Lane& lane) { return lane.kind == LaneKind::copy; });
  if (draft.schedule.sync != Sync::flag || any_streams) share(places, draft.schedule.sync);
}

bool SignalGroups::same_acquires(const Group& a, const Group& b) const {
  const auto x = acquires(a), y = acquires(b);
  return std::equal(x.begin(), x.end(), y.begin(), y.end());
}

// A group for each release, rank and buffer.
void SignalGroups::find(const Places& places, const std::vector<SyncEdge>& edges) {
  // First what each release is waited for by, rank by rank.
  Sorted<SyncEdge> by_release(edges, places.count(),
                              [](const SyncEdge& edge) { return edge.release; });
  releases_.reserve(edges.size());
  acquires_.reserve(edges.size());
  uint16_t most_ranks = 0;
  for (uint32_t at = 0; at < places.count(); ++at) {
    const std::span<SyncEdge> of_one = by_release.bucket(at);
    if (of_one.size() > 1) {
      std::sort(of_one.begin(), of_one.end(), [&](const SyncEdge& a, const SyncEdge& b) {
        return std::tuple(places.rank_of(a.acquire), a.buffer, a.acquire) <
               std::tuple(places.rank_of(b.acquire), b.buffer, b.acquire);
      });
    }
    for (const SyncEdge& edge : of_one) {
      const uint16_t rank = places.rank_of(edge.acquire);
      most_ranks = std::max(most_ranks, rank);
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
  const auto sole_lane = [&](const Group& group) { return places.sole_lane(releases(group)[0]); };
  Sorted<Group> by_acquire(groups_, places.count(),
                           [&](const Group& group) { return acquires(group)[0]; });
  const size_t num_buffers = places.num_buffers();
  Sorted<Group> by_place(
      by_acquire.all(), num_buffers * (most_ranks + size_t{1}),
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
}

// The groups of the other ranks, in the order that find() gives them: alike ranks take turns
// alike, so acquires are in order, but releases are of several ranks.
void SignalGroups::turn(const Places& places, const AlikeRanks& alike) {
  const size_t count = groups_.size();
  const auto ranks = static_cast<size_t>(alike.ranks());
  groups_.reserve(count * ranks);
  releases_.reserve(releases_.size() * ranks);
  acquires_.reserve(acquires_.size() * ranks);
  for (int rank = 1; rank < alike.ranks(); ++rank) {
    for (size_t first = 0, last = 0; first < count; first = last) {
      const Group one = groups_[first];
      const auto first_release = static_cast<uint32_t>(releases_.size());
      const auto first_acquire = static_cast<uint32_t>(acquires_.size());
      for (uint32_t i = 0; i < one.num_acquires; ++i) {
        acquires_.push_back(alike.turned(acquires_[one.first_acquire + i], rank));
      }
      for (last = first;
           last < count && groups_[last].buffer == one.buffer && same_acquires(groups_[last], one);
           ++last) {
        releases_.push_back(alike.turned(releases_[groups_[last].first_release], rank));
      }
      std::sort(releases_.begin() + first_release, releases_.end(), [&](uint32_t a, uint32_t b) {
        const uint32_t x = places.sole_lane(a), y = places.sole_lane(b);
        return x != y ? x < y : a < b;
      });
      for (uint32_t release = first_release; release < releases_.size(); ++release) {
        groups_.push_back(
            {static_cast<uint16_t>(rank), one.buffer, release, first_acquire, 1, one.num_acquires});
      }
    }
  }
}

// Releases with the same consumers share a counter. With flags only those that copy lanes alone
// wait for: each wait is an operation of their stream, and they need all of them anyway.
void SignalGroups::share(const Places& places, Sync sync) {
  const auto shares = [&](const Group& group) {
    const std::span<const uint32_t> waiters = acquires(group);
    return sync != Sync::flag || std::all_of(waiters.begin(), waiters.end(), [&](uint32_t at) {
             return places.waits_in_stream(at);
           });
  };
  std::vector<Group> shared;
  std::vector<uint32_t> shared_releases;
  shared.reserve(groups_.size());
  shared_releases.reserve(groups_.size());
  uint32_t last_lane = kAnyLane;  // of the last of them
  for (const Group& group : groups_) {
    const uint32_t release = releases(group)[0], lane = places.sole_lane(release);
    const bool joins = !shared.empty() && shared.back().rank == group.rank &&
                       shared.back().buffer == group.buffer && last_lane == lane && shares(group) &&
                       same_acquires(shared.back(), group);
    if (!joins) {
      shared.push_back(group);
      shared.back().first_release = static_cast<uint32_t>(shared_releases.size());
      shared.back().num_releases = 0;
    }
    last_lane = lane;
    shared_releases.push_back(release);
    ++shared.back().num_releases;
  }
  groups_ = std::move(shared);
  releases_ = std::move(shared_releases);
}

}  // namespace stretto

// Which releases share a counter.
#include <algorithm>
#include <tuple>

#include "core/counting_sort.h"
#include "sync/edges.h"

namespace stretto {

SignalGroups::SignalGroups(const Draft& draft, const std::vector<SyncEdge>& edges,
                           const AlikeRanks* alike)
    : program_(&draft.program), alike_(alike), num_buffers_(draft.plan.buffers.size()) {
  bool any_streams = false;
  for (const Lane& lane : draft.plan.lanes) {
    lanes_.push_back({lane.rank, lane.kind == LaneKind::copy});
    any_streams = any_streams || lanes_.back().is_copy;
  }
  find(edges);
  const auto by_counter = [](const Schedule& one) { return one.sync != Sync::flag; };
  const std::vector<Schedule>& schedules = draft.schedule.products;
  if (any_streams || std::any_of(schedules.begin(), schedules.end(), by_counter)) share(draft);
}

bool SignalGroups::same_acquires(const Group& a, const Group& b) const {
  const auto x = acquires(a), y = acquires(b);
  return std::equal(x.begin(), x.end(), y.begin(), y.end());
}

// A group for each release, rank and buffer.
void SignalGroups::find(const std::vector<SyncEdge>& edges) {
  const size_t count = program_->size();
  // First what each release is waited for by, rank by rank.
  Sorted<SyncEdge> by_release(edges, count, [](const SyncEdge& edge) { return edge.release; });
  releases_.reserve(edges.size());
  acquires_.reserve(edges.size());
  uint16_t most_ranks = 0;
  for (uint32_t at = 0; at < count; ++at) {
    const std::span<SyncEdge> of_one = by_release.bucket(at);
    if (of_one.size() > 1) {
      std::sort(of_one.begin(), of_one.end(), [&](const SyncEdge& a, const SyncEdge& b) {
        return std::tuple(rank_of(a.acquire), a.buffer, a.acquire) <
               std::tuple(rank_of(b.acquire), b.buffer, b.acquire);
      });
    }
    for (const SyncEdge& edge : of_one) {
      const uint16_t rank = rank_of(edge.acquire);
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
  const auto lane_of = [&](const Group& group) { return sole_lane(releases(group)[0]); };
  Sorted<Group> by_acquire(groups_, count, [&](const Group& group) { return acquires(group)[0]; });
  Sorted<Group> by_place(
      by_acquire.all(), num_buffers_ * (most_ranks + size_t{1}),
      [&](const Group& group) { return group.rank * num_buffers_ + group.buffer; });
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
      alike = alike && same_acquires(one, other) && lane_of(one) == lane_of(other);
    }
    if (alike) continue;
    std::stable_sort(groups_.begin() + static_cast<std::ptrdiff_t>(first),
                     groups_.begin() + static_cast<std::ptrdiff_t>(last),
                     [&](const Group& a, const Group& b) {
                       if (same_acquires(a, b)) return lane_of(a) < lane_of(b);
                       const auto x = acquires(a), y = acquires(b);
                       return std::lexicographical_compare(x.begin(), x.end(), y.begin(), y.end());
                     });
  }
}

// Alike ranks take turns alike, so acquires are in order, but releases are of several ranks.
std::vector<uint32_t> SignalGroups::places_on(int rank) const {
  struct Image {
    uint64_t place;  // its copy lane, then its first release
    uint32_t group;
  };
  std::vector<Image> images;
  std::vector<uint32_t> places;
  places.reserve(groups_.size());
  for (uint32_t first = 0, last = 0; first < groups_.size(); first = last) {
    const Group& one = groups_[first];
    images.clear();
    for (last = first; last < groups_.size() && groups_[last].buffer == one.buffer &&
                       same_acquires(groups_[last], one);
         ++last) {
      uint32_t least = UINT32_MAX;
      for (const uint32_t release : releases(groups_[last])) {
        least = std::min(least, alike_->turned(release, rank));
      }
      images.push_back({uint64_t{sole_lane(least)} << 32 | least, last});
    }
    std::sort(images.begin(), images.end(),
              [](const Image& a, const Image& b) { return a.place < b.place; });
    for (const Image& image : images) places.push_back(image.group);
  }
  return places;
}

SignalGroups SignalGroups::of_all_ranks() const {
  SignalGroups all = *this;
  if (alike_ == nullptr) return all;
  for (int rank = 1; rank < alike_->ranks(); ++rank) {
    for (const uint32_t of_rank_0 : places_on(rank)) {
      const Group& one = groups_[of_rank_0];
      Group image = one;
      image.rank = static_cast<uint16_t>(rank);
      image.first_release = static_cast<uint32_t>(all.releases_.size());
      image.first_acquire = static_cast<uint32_t>(all.acquires_.size());
      for (const uint32_t at : releases(one)) {
        all.releases_.push_back(alike_->turned(at, rank));
      }
      for (const uint32_t at : acquires(one)) {
        all.acquires_.push_back(alike_->turned(at, rank));
      }
      std::sort(all.releases_.begin() + image.first_release, all.releases_.end());
      all.groups_.push_back(image);
    }
  }
  return all;
}

// Releases with the same consumers share a counter. With flags only those that copy lanes alone
// wait for: each wait is an operation of their stream, and they need all of them anyway.
void SignalGroups::share(const Draft& draft) {
  const auto shares = [&](const Group& group) {
    const std::span<const uint32_t> waiters = acquires(group);
    return draft.schedule_at(waiters[0]).sync != Sync::flag ||
           std::all_of(waiters.begin(), waiters.end(),
                       [&](uint32_t at) { return waits_in_stream(at); });
  };
  std::vector<Group> shared;
  std::vector<uint32_t> shared_releases;
  shared.reserve(groups_.size());
  shared_releases.reserve(groups_.size());
  uint32_t last_lane = kAnyLane;  // of the last of them
  for (const Group& group : groups_) {
    const uint32_t release = releases(group)[0], lane = sole_lane(release);
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

// The synchronisation that a draft needs, and no more: which instruction waits for which.
#pragma once

#include <span>
#include <vector>

#include "stretto/lower.h"
#include "sync/alike_ranks.h"
#include "sync/dependences.h"
#include "sync/run_history.h"
#include "sync/sync_points.h"

namespace stretto {

// `acquire` waits for `release` in every run. Both are positions in Draft::program.
struct SyncEdge {
  uint32_t release = 0;
  uint32_t acquire = 0;
  uint16_t buffer = 0;

  bool operator==(const SyncEdge&) const = default;
};

// The dependences at their sync points, those that lane order implies left out, and those of the
// other lane of a cluster (partners.h) and of a wave's other tiles (waves.h). Where ranks are
// alike, here and below edges are those of rank 0's acquires, unless it says of all ranks.
struct PointEdges {
  std::vector<SyncEdge> all;       // by acquire, then release
  std::vector<uint32_t> starts;    // by acquire point: where its edges begin in `all`; then the end
  std::vector<uint32_t> releases;  // of `all`
  const AlikeRanks* alike;         // where ranks are; of `dependences`

  PointEdges(const Draft& draft, const Dependences& dependences, const SyncPoints& points);
};

// The transitive reduction: an edge is left out when lane order, boundaries, collectives and the
// other edges imply it. Sorted by (acquire, release). Executes the first run of `history`.
std::vector<SyncEdge> reduce_to_edges(const PointEdges& needed, RunHistory& first_run);

// Of all ranks, in the same order.
std::vector<SyncEdge> of_all_ranks(const std::vector<SyncEdge>& edges, const AlikeRanks* alike);

// Counters in the memory of ranks: all acquires of one wait for all its releases.
class SignalGroups {
 public:
  struct Group {
    uint16_t rank = 0;
    uint16_t buffer = 0;
    uint32_t first_release = 0, first_acquire = 0;  // in the lists that groups share
    uint32_t num_releases = 0, num_acquires = 0;
  };

  // Counter schedules share one counter between everything that the same consumers wait for, but
  // for what different copy lanes release; flag schedules give every release a counter of its own
  // in each rank that waits for it, unless copy lanes alone do.
  SignalGroups(const Draft& draft, const std::vector<SyncEdge>& edges, const AlikeRanks* alike);

  // Rank by rank, by buffer and acquires; where ranks are alike, rank 0's.
  const std::vector<Group>& all() const { return groups_; }
  SignalGroups of_all_ranks() const;
  std::span<const uint32_t> releases(const Group& group) const {
    return std::span(releases_).subspan(group.first_release, group.num_releases);
  }
  std::span<const uint32_t> acquires(const Group& group) const {
    return std::span(acquires_).subspan(group.first_acquire, group.num_acquires);
  }
  // Where ranks are alike: by place among those of `rank`, the group of rank 0 whose image stands
  // there. Images have the places of what they are images of, but for groups of the same buffer and
  // acquires, which stand in the order of their releases.
  std::vector<uint32_t> places_on(int rank) const;

 private:
  // Of lanes, and so of what they release.
  struct LanePlace {
    uint16_t rank = 0;
    bool is_copy = false;
  };
  static constexpr uint32_t kAnyLane = UINT32_MAX;

  uint16_t rank_of(uint32_t at) const { return lanes_[(*program_)[at].lane].rank; }
  bool waits_in_stream(uint32_t at) const { return lanes_[(*program_)[at].lane].is_copy; }
  // Its lane where that is one of a copy engine: such can notify by a copy where nobody else adds
  // to the counter. Other releases may share one.
  uint32_t sole_lane(uint32_t at) const {
    const uint32_t lane = (*program_)[at].lane;
    return lanes_[lane].is_copy ? lane : kAnyLane;
  }
  void find(const std::vector<SyncEdge>& edges);
  void share(const Draft& draft);
  bool same_acquires(const Group& a, const Group& b) const;

  const std::vector<InstrRef>* program_;
  const AlikeRanks* alike_;
  size_t num_buffers_;
  std::vector<LanePlace> lanes_;
  std::vector<Group> groups_;
  std::vector<uint32_t> releases_, acquires_;
};

// Readers of rank `from` acknowledge to writers of rank `to`, which wait `lag` runs later before
// they overwrite what was read (or count on a counter that was waited on).
struct Ack {
  uint16_t from = 0, to = 0;
  uint8_t lag = 1;
  std::vector<uint32_t> releases, acquires;

  bool operator==(const Ack&) const = default;
};

// What reuse of buffers and counters across runs needs beyond the groups: nothing where the
// alternating copies and the traffic of the runs between imply it. Sorted by (to, from).
// `first_run` has had one run, with these edges; more follow where that does not settle it.
std::vector<Ack> find_acks(const Draft& draft, const Dependences& dependences,
                           const SyncPoints& points, const std::vector<SyncEdge>& edges,
                           const SignalGroups& groups, RunHistory& first_run);

}  // namespace stretto

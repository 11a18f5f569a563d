// The synchronisation that a draft needs, and no more: which instruction waits for which.
#pragma once

#include <span>
#include <vector>

#include "stretto/lower.h"
#include "sync/alike_ranks.h"
#include "sync/dependences.h"
#include "sync/sync_points.h"
#include "sync/timeline.h"

namespace stretto {

// `acquire` waits for `release` in every run. Both are positions in Draft::program.
struct SyncEdge {
  uint32_t release = 0;
  uint32_t acquire = 0;
  uint16_t buffer = 0;

  bool operator==(const SyncEdge&) const = default;
};

// The dependences at their sync points, those that lane order implies left out. Where ranks are
// alike, here and below edges are those of rank 0's acquires, unless it says of all ranks.
struct PointEdges {
  std::vector<SyncEdge> all;       // by acquire, then release
  std::vector<uint32_t> starts;    // by acquire point: where its edges begin in `all`; then the end
  std::vector<uint32_t> releases;  // of `all`
  const AlikeRanks* alike;         // where ranks are; of `dependences`

  PointEdges(const Draft& draft, const Dependences& dependences, const SyncPoints& points);
};

// The transitive reduction: an edge is left out when lane order, boundaries, collectives and the
// other edges imply it. Sorted by (acquire, release). Executes the first run of a timeline.
std::vector<SyncEdge> reduce_to_edges(const PointEdges& needed, Timeline& first_run);

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

  const std::vector<Group>& all() const { return groups_; }  // of all ranks, rank by rank
  std::span<const uint32_t> releases(const Group& group) const {
    return std::span(releases_).subspan(group.first_release, group.num_releases);
  }
  std::span<const uint32_t> acquires(const Group& group) const {
    return std::span(acquires_).subspan(group.first_acquire, group.num_acquires);
  }

 private:
  // Releases of a draft, and where their counters are when they have one each.
  class Places;
  void find(const Places& places, const std::vector<SyncEdge>& edges);
  void turn(const Places& places, const AlikeRanks& alike);
  void share(const Places& places, Sync sync);
  bool same_acquires(const Group& a, const Group& b) const;

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
                           const SignalGroups& groups, Timeline& first_run);

}  // namespace stretto

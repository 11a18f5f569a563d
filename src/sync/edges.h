// The synchronisation that a draft needs, and no more: which instruction waits for which.
#pragma once

#include <optional>
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

// The dependences at their sync points, those that lane order implies left out.
struct PointEdges {
  std::vector<SyncEdge> all;
  std::vector<size_t> starts;  // by acquire point: where its edges begin in `all`; then the end
  // By release, or where ranks are alike in the order of rank 0's.
  std::vector<uint32_t> releases;   // of `all`
  std::optional<AlikeRanks> alike;  // where ranks are

  PointEdges(const Draft& draft, const std::vector<Dependence>& dependences,
             const SyncPoints& points, bool use_alike = true);
  const AlikeRanks* alike_ranks() const { return alike ? &*alike : nullptr; }

 private:
  bool order_as_rank_0();
};

// The transitive reduction: an edge is left out when lane order, boundaries, collectives and the
// other edges imply it. Sorted by (acquire, release). Executes the first run of a timeline.
std::vector<SyncEdge> reduce_to_edges(const PointEdges& needed, Timeline& first_run);

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
  SignalGroups(const Draft& draft, const std::vector<SyncEdge>& edges);

  const std::vector<Group>& all() const { return groups_; }
  std::span<const uint32_t> releases(const Group& group) const {
    return std::span(releases_).subspan(group.first_release, group.num_releases);
  }
  std::span<const uint32_t> acquires(const Group& group) const {
    return std::span(acquires_).subspan(group.first_acquire, group.num_acquires);
  }

 private:
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
std::vector<Ack> find_acks(const Draft& draft, const std::vector<Dependence>& dependences,
                           const SyncPoints& points, const std::vector<SyncEdge>& edges,
                           const SignalGroups& groups, Timeline& first_run);

}  // namespace stretto

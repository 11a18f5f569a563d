// The synchronisation that a draft needs, and no more: which instruction waits for which.
#pragma once

#include <vector>

#include "stretto/lower.h"
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

// The transitive reduction of the dependences at their sync points: an edge is left out when lane
// order, boundaries, collectives and the other edges imply it. Sorted by (acquire, release).
// Executes the first run of a timeline.
std::vector<SyncEdge> reduce_to_edges(const Draft& draft,
                                      const std::vector<Dependence>& dependences,
                                      const SyncPoints& points, Timeline& first_run);

// One counter in the memory of `rank`: all `acquires` wait for all `releases`.
struct SignalGroup {
  uint16_t rank = 0;
  uint16_t buffer = 0;
  std::vector<uint32_t> releases, acquires;
};

// Counter schedules share one counter between everything that the same consumers wait for; flag
// schedules give every release a counter of its own in each rank that waits for it.
std::vector<SignalGroup> group_edges(const Draft& draft, const std::vector<SyncEdge>& edges);

// Readers of rank `from` acknowledge to writers of rank `to`, which wait `lag` runs later before
// they overwrite what was read (or count on a counter that was waited on).
struct Ack {
  uint16_t from = 0, to = 0;
  uint8_t lag = 1;
  std::vector<uint32_t> releases, acquires;
};

// What reuse of buffers and counters across runs needs beyond the groups: nothing where the
// alternating copies and the traffic of the runs between imply it. Sorted by (to, from).
// `first_run` has had one run, with these edges; more follow where that does not settle it.
std::vector<Ack> find_acks(const Draft& draft, const std::vector<Dependence>& dependences,
                           const SyncPoints& points, const std::vector<SyncEdge>& edges,
                           const std::vector<SignalGroup>& groups, Timeline& first_run);

}  // namespace stretto

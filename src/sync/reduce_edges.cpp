// Which waits a run needs: the transitive reduction of its dependences.
#include <algorithm>

#include "sync/edges.h"

namespace stretto {
namespace {

// Dependences seen from their sync points, sorted by acquire; starts[a] .. starts[a + 1] are those
// of acquire point a.
struct PointDependences {
  std::vector<SyncEdge> edges;
  std::vector<uint32_t> releases;  // of `edges`, for the timeline
  std::vector<size_t> starts;
};

PointDependences at_points(const Draft& draft, const std::vector<Dependence>& dependences,
                           const SyncPoints& points) {
  PointDependences result;
  result.edges.reserve(dependences.size());
  for (const Dependence& d : dependences) {
    const bool inside = points.in_one_kernel(d.before, d.after);
    const SyncEdge edge{inside ? d.before : points.release[d.before],
                        inside ? d.after : points.acquire[d.after], d.buffer};
    if (draft.program[edge.release].lane != draft.program[edge.acquire].lane) {
      result.edges.push_back(edge);
    }
  }
  auto order = [](const SyncEdge& a, const SyncEdge& b) {
    if (a.acquire != b.acquire) return a.acquire < b.acquire;
    return a.release != b.release ? a.release < b.release : a.buffer < b.buffer;
  };
  std::sort(result.edges.begin(), result.edges.end(), order);
  auto same = [](const SyncEdge& a, const SyncEdge& b) {
    return a.acquire == b.acquire && a.release == b.release;
  };
  result.edges.erase(std::unique(result.edges.begin(), result.edges.end(), same),
                     result.edges.end());
  result.starts.assign(draft.program.size() + 1, 0);
  for (const SyncEdge& edge : result.edges) {
    result.releases.push_back(edge.release);
    ++result.starts[edge.acquire + 1];
  }
  for (size_t i = 1; i < result.starts.size(); ++i) result.starts[i] += result.starts[i - 1];
  return result;
}

}  // namespace

std::vector<SyncEdge> reduce_to_edges(const Draft& draft,
                                      const std::vector<Dependence>& dependences,
                                      const SyncPoints& points, Timeline& first_run) {
  const PointDependences needed = at_points(draft, dependences, points);
  std::vector<SyncEdge> kept;
  std::vector<Event> causes;
  // The last release first: a release can be implied by those behind it in the program only.
  first_run.run(
      [&](uint32_t at) {
        return std::span(needed.releases)
            .subspan(needed.starts[at], needed.starts[at + 1] - needed.starts[at]);
      },
      [&](uint32_t at) -> std::span<const Event> {
        causes.clear();
        for (size_t i = needed.starts[at + 1]; i-- > needed.starts[at];) {
          causes.push_back(first_run.event(0, needed.releases[i]));
        }
        return causes;
      },
      [&](uint32_t at, std::span<const uint32_t> news) {
        for (uint32_t i : news) kept.push_back(needed.edges[needed.starts[at + 1] - 1 - i]);
      });
  std::sort(kept.begin(), kept.end(), [](const SyncEdge& a, const SyncEdge& b) {
    return a.acquire != b.acquire ? a.acquire < b.acquire : a.release < b.release;
  });
  return kept;
}

std::vector<SignalGroup> group_edges(const Draft& draft, const std::vector<SyncEdge>& edges) {
  auto rank_of = [&](uint32_t at) { return draft.plan.lanes[draft.program[at].lane].rank; };
  // First what each release is waited for by, rank by rank.
  std::vector<SyncEdge> by_release = edges;
  std::sort(by_release.begin(), by_release.end(), [&](const SyncEdge& a, const SyncEdge& b) {
    if (a.release != b.release) return a.release < b.release;
    const uint16_t x = rank_of(a.acquire), y = rank_of(b.acquire);
    if (x != y) return x < y;
    return a.buffer != b.buffer ? a.buffer < b.buffer : a.acquire < b.acquire;
  });
  std::vector<SignalGroup> groups;
  for (const SyncEdge& edge : by_release) {
    const uint16_t rank = rank_of(edge.acquire);
    if (groups.empty() || groups.back().releases.front() != edge.release ||
        groups.back().rank != rank || groups.back().buffer != edge.buffer) {
      groups.push_back({rank, edge.buffer, {edge.release}, {}});
    }
    groups.back().acquires.push_back(edge.acquire);
  }
  auto order = [](const SignalGroup& a, const SignalGroup& b) {
    if (a.rank != b.rank) return a.rank < b.rank;
    if (a.buffer != b.buffer) return a.buffer < b.buffer;
    if (a.acquires != b.acquires) return a.acquires < b.acquires;
    return a.releases < b.releases;
  };
  std::sort(groups.begin(), groups.end(), order);
  if (draft.schedule.sync == Sync::flag) return groups;

  // Then releases with the same consumers share a counter.
  std::vector<SignalGroup> shared;
  for (SignalGroup& group : groups) {
    if (!shared.empty() && shared.back().rank == group.rank &&
        shared.back().buffer == group.buffer && shared.back().acquires == group.acquires) {
      shared.back().releases.push_back(group.releases.front());
    } else {
      shared.push_back(std::move(group));
    }
  }
  return shared;
}

}  // namespace stretto

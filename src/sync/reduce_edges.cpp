// Which waits a run needs: the transitive reduction of its dependences.
#include <algorithm>

#include "core/counting_sort.h"
#include "sync/edges.h"
#include "sync/partners.h"
#include "sync/waves.h"

namespace stretto {

namespace {

// An object, so that sorting compares in place.
constexpr auto kInOrder = [](const SyncEdge& a, const SyncEdge& b) {
  if (a.acquire != b.acquire) return a.acquire < b.acquire;
  return a.release != b.release ? a.release < b.release : a.buffer < b.buffer;
};

// In order, each pair once.
void sort_out(std::vector<SyncEdge>& edges) {
  if (!std::is_sorted(edges.begin(), edges.end(), kInOrder)) {
    std::sort(edges.begin(), edges.end(), kInOrder);
  }
  const auto same = [](const SyncEdge& a, const SyncEdge& b) {
    return a.acquire == b.acquire && a.release == b.release;
  };
  edges.erase(std::unique(edges.begin(), edges.end(), same), edges.end());
}

}  // namespace

PointEdges::PointEdges(const Draft& draft, const Dependences& dependences, const SyncPoints& points)
    : alike(dependences.alike ? &*dependences.alike : nullptr) {
  const Partners partners(draft);
  all.reserve(dependences.all.size() * (partners.any() ? 2 : 1));
  for (const Dependence& d : dependences.all) {
    const bool inside = points.in_one_kernel(d.before, d.after);
    const SyncEdge edge{inside ? d.before : points.release[d.before],
                        inside ? d.after : points.acquire[d.after], d.buffer};
    if (draft.program[edge.release].lane == draft.program[edge.acquire].lane) continue;
    all.push_back(edge);
    if (partners.any()) all.push_back({edge.release, partners.of(edge.acquire), edge.buffer});
  }
  sort_out(all);
  const std::vector<Schedule>& schedules = draft.schedule.products;
  if (std::any_of(schedules.begin(), schedules.end(),
                  [](const Schedule& one) { return one.start == Start::wave; })) {
    share_among_waves(draft, alike, all);
    sort_out(all);
  }
  starts.assign(draft.program.size() + 1, 0);
  for (const SyncEdge& edge : all) ++starts[edge.acquire + 1];
  for (size_t i = 1; i < starts.size(); ++i) starts[i] += starts[i - 1];
  releases.reserve(all.size());
  for (const SyncEdge& edge : all) releases.push_back(edge.release);
}

std::vector<SyncEdge> of_all_ranks(const std::vector<SyncEdge>& edges, const AlikeRanks* alike) {
  if (alike == nullptr) return edges;
  std::vector<SyncEdge> all;
  all.reserve(edges.size() * static_cast<size_t>(alike->ranks()));
  for (int rank = 0; rank < alike->ranks(); ++rank) {
    for (const SyncEdge& edge : edges) {
      all.push_back(
          {alike->turned(edge.release, rank), alike->turned(edge.acquire, rank), edge.buffer});
    }
  }
  std::sort(all.begin(), all.end(), kInOrder);
  return all;
}

std::vector<SyncEdge> reduce_to_edges(const PointEdges& needed, RunHistory& first_run) {
  const std::vector<uint32_t>& starts = needed.starts;
  std::vector<SyncEdge> edges;
  std::vector<Event> causes;
  // The last release first: a release can be implied by those behind it in the program only.
  first_run.run(
      [&](uint32_t at) {
        return std::span(needed.releases).subspan(starts[at], starts[at + 1] - starts[at]);
      },
      [&](uint32_t at) -> std::span<const Event> {
        causes.clear();
        for (uint32_t i = starts[at + 1]; i-- > starts[at];) {
          causes.push_back(first_run.event(0, needed.releases[i]));
        }
        return causes;
      },
      [&](uint32_t at, std::span<const uint32_t> news) {
        for (const uint32_t from_last : news) {
          edges.push_back(needed.all[starts[at + 1] - 1 - from_last]);
        }
      });
  // Those of one acquire were found last release first.
  Sorted<SyncEdge> sorted(edges, starts.size() - 1,
                          [](const SyncEdge& edge) { return edge.acquire; });
  for (size_t at = 0; at + 1 < starts.size(); ++at) {
    const std::span<SyncEdge> of_one = sorted.bucket(at);
    std::reverse(of_one.begin(), of_one.end());
  }
  return std::move(sorted.all());
}

}  // namespace stretto

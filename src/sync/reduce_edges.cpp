// Which waits a run needs: the transitive reduction of its dependences.
#include <algorithm>

#include "sync/edges.h"

namespace stretto {

PointEdges::PointEdges(const Draft& draft, const std::vector<Dependence>& dependences,
                       const SyncPoints& points, bool use_alike) {
  all.reserve(dependences.size());
  for (const Dependence& d : dependences) {
    const bool inside = points.in_one_kernel(d.before, d.after);
    const SyncEdge edge{inside ? d.before : points.release[d.before],
                        inside ? d.after : points.acquire[d.after], d.buffer};
    if (draft.program[edge.release].lane != draft.program[edge.acquire].lane) all.push_back(edge);
  }
  auto order = [](const SyncEdge& a, const SyncEdge& b) {
    if (a.acquire != b.acquire) return a.acquire < b.acquire;
    return a.release != b.release ? a.release < b.release : a.buffer < b.buffer;
  };
  if (!std::is_sorted(all.begin(), all.end(), order)) std::sort(all.begin(), all.end(), order);
  auto same = [](const SyncEdge& a, const SyncEdge& b) {
    return a.acquire == b.acquire && a.release == b.release;
  };
  all.erase(std::unique(all.begin(), all.end(), same), all.end());
  starts.assign(draft.program.size() + 1, 0);
  for (const SyncEdge& edge : all) ++starts[edge.acquire + 1];
  for (size_t i = 1; i < starts.size(); ++i) starts[i] += starts[i - 1];
  if (use_alike) alike = AlikeRanks::find(draft);
  if (alike && !order_as_rank_0()) alike.reset();
  releases.reserve(all.size());
  for (const SyncEdge& edge : all) releases.push_back(edge.release);
}

// False when the dependences of some rank are not those of rank 0.
bool PointEdges::order_as_rank_0() {
  const auto edges_of = [&](uint32_t at) {
    return std::span<const SyncEdge>(all).subspan(starts[at], starts[at + 1] - starts[at]);
  };
  constexpr uint32_t kNone = ~0u;
  std::vector<uint32_t> place(starts.size(), kNone);  // among the edges of one, by release
  std::vector<SyncEdge> ordered = all;
  for (uint32_t home = 0; home + 1 < starts.size(); ++home) {
    if (alike->rank_of(home) != 0) continue;
    const std::span<const SyncEdge> expected = edges_of(home);
    for (uint32_t i = 0; i < expected.size(); ++i) place[expected[i].release] = i;
    for (int rank = 1; rank < alike->ranks(); ++rank) {
      const std::span<const SyncEdge> found = edges_of(alike->image(home, rank));
      if (found.size() != expected.size()) return false;
      const size_t first = starts[alike->image(home, rank)];
      for (const SyncEdge& edge : found) {
        const uint32_t i = place[alike->seen_by(rank, edge.release)];
        if (i == kNone || expected[i].buffer != edge.buffer) return false;
        ordered[first + i] = edge;
      }
    }
    for (const SyncEdge& edge : expected) place[edge.release] = kNone;
  }
  all = std::move(ordered);
  return true;
}

std::vector<SyncEdge> reduce_to_edges(const PointEdges& needed, Timeline& first_run) {
  const std::vector<size_t>& starts = needed.starts;
  struct News {
    size_t first = 0, count = 0;  // in `kept`
  };
  std::vector<News> news_of(starts.size());
  std::vector<uint32_t> kept;  // which of the edges of one, from its last
  std::vector<Event> causes;
  // The last release first: a release can be implied by those behind it in the program only.
  first_run.run(
      [&](uint32_t at) {
        return std::span(needed.releases).subspan(starts[at], starts[at + 1] - starts[at]);
      },
      [&](uint32_t at) -> std::span<const Event> {
        causes.clear();
        for (size_t i = starts[at + 1]; i-- > starts[at];) {
          causes.push_back(first_run.event(0, needed.releases[i]));
        }
        return causes;
      },
      [&](uint32_t at, std::span<const uint32_t> news) {
        news_of[at] = {kept.size(), news.size()};
        kept.insert(kept.end(), news.begin(), news.end());
      });
  std::vector<SyncEdge> edges;
  edges.reserve(kept.size() * static_cast<size_t>(needed.alike ? needed.alike->ranks() : 1));
  for (uint32_t at = 0; at + 1 < starts.size(); ++at) {
    const News& news = news_of[needed.alike ? needed.alike->home(at) : at];
    if (news.count == 0) continue;
    const auto first = static_cast<std::ptrdiff_t>(edges.size());
    for (size_t i = news.first; i < news.first + news.count; ++i) {
      edges.push_back(needed.all[starts[at + 1] - 1 - kept[i]]);
    }
    std::sort(edges.begin() + first, edges.end(),
              [](const SyncEdge& a, const SyncEdge& b) { return a.release < b.release; });
  }
  return edges;
}

}  // namespace stretto

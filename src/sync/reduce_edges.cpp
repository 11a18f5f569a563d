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
  struct Seen {
    uint32_t release;  // by the acquire's rank
    SyncEdge edge;
  };
  std::vector<Seen> seen;
  std::vector<SyncEdge> ordered = all;
  for (uint32_t at = 0; at + 1 < starts.size(); ++at) {
    const int rank = alike->rank_of(at);
    const uint32_t home = alike->home(at);
    const size_t count = starts[at + 1] - starts[at];
    if (count != starts[home + 1] - starts[home]) return false;
    if (rank == 0) continue;
    seen.clear();
    for (size_t i = starts[at]; i < starts[at + 1]; ++i) {
      seen.push_back({alike->seen_by(rank, all[i].release), all[i]});
    }
    std::sort(seen.begin(), seen.end(),
              [](const Seen& a, const Seen& b) { return a.release < b.release; });
    for (size_t i = 0; i < count; ++i) {
      const SyncEdge& expected = all[starts[home] + i];
      if (seen[i].release != expected.release || seen[i].edge.buffer != expected.buffer) {
        return false;
      }
      ordered[starts[at] + i] = seen[i].edge;
    }
  }
  all = std::move(ordered);
  return true;
}

std::vector<SyncEdge> reduce_to_edges(const PointEdges& needed, Timeline& first_run) {
  const std::vector<size_t>& starts = needed.starts;
  std::vector<SyncEdge> kept;
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
        for (int rank = 0; rank < (needed.alike ? needed.alike->ranks() : 1); ++rank) {
          const uint32_t image = needed.alike ? needed.alike->image(at, rank) : at;
          for (uint32_t i : news) kept.push_back(needed.all[starts[image + 1] - 1 - i]);
        }
      });
  std::sort(kept.begin(), kept.end(), [](const SyncEdge& a, const SyncEdge& b) {
    return a.acquire != b.acquire ? a.acquire < b.acquire : a.release < b.release;
  });
  return kept;
}

}  // namespace stretto

#include "sync/waves.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

namespace stretto {
namespace {

// A GPU's task has at most so many waits. The tiles of a wave with more, whose rows very many lanes
// push, begin as they can: out of step rather than not at all. Only flags come to so many: with
// counters what a wave waits for is one.
constexpr size_t kMostWaits = 255;

struct Wave {
  std::vector<uint32_t> begins;  // the first tasks of its tiles: positions in the program
  std::vector<SyncEdge> pushed;  // what they wait for
  size_t later = 0;              // waits of a tile behind its first task, at most
};

// How far each lane is known to have come: who waits for one of its releases knows of all before.
class Progress {
 public:
  explicit Progress(const Draft& draft) : draft_(draft), behind_(draft.plan.lanes.size(), 0) {}

  bool includes(uint32_t release) const { return release < behind(release); }
  bool ends_with(uint32_t release) const { return release + 1 == behind(release); }
  void reach(uint32_t release) {
    uint32_t& behind = behind_[draft_.program[release].lane];
    behind = std::max(behind, release + 1);
  }

 private:
  uint32_t behind(uint32_t release) const { return behind_[draft_.program[release].lane]; }

  const Draft& draft_;
  std::vector<uint32_t> behind_;  // by lane: the position behind that
};

class Sharing {
 public:
  Sharing(const Draft& draft, std::vector<SyncEdge>& edges)
      : draft_(draft), edges_(edges), starts_(draft.program.size() + 1, 0) {
    for (const SyncEdge& edge : edges) ++starts_[edge.acquire + 1];
    for (size_t i = 1; i < starts_.size(); ++i) starts_[i] += starts_[i - 1];
    positions_.resize(draft.plan.lanes.size());
    for (uint32_t at = 0; at < draft.program.size(); ++at) {
      positions_[draft.program[at].lane].push_back(at);
    }
  }

  void share(int rank) {
    std::vector<std::vector<Wave>> kernels;  // what two boundaries have between them
    for (uint32_t lane = 0; lane < draft_.plan.lanes.size(); ++lane) {
      if (draft_.plan.lanes[lane].rank == rank && is_compute(lane)) add_lane(lane, kernels);
    }
    // What all tiles of the wave at hand wait for, by this wave or those before it. Whoever begins
    // a wave has begun all before it.
    Progress known(draft_);
    for (std::vector<Wave>& waves : kernels) {
      for (Wave& wave : waves) share(wave, known);
    }
  }

 private:
  void share(Wave& wave, Progress& known) {
    keep_last(wave.pushed, known);
    if (draft_.schedule_at(wave.begins[0]).sync == Sync::flag &&
        wave.pushed.size() + wave.later > kMostWaits) {
      return;
    }
    for (const SyncEdge& edge : wave.pushed) {
      known.reach(edge.release);
      for (const uint32_t begin : wave.begins) {
        edges_.push_back({edge.release, begin, edge.buffer});
      }
    }
  }

  bool is_compute(uint32_t lane) const { return draft_.plan.lanes[lane].kind == LaneKind::compute; }
  std::span<const SyncEdge> edges_of(uint32_t at) const {
    return std::span(edges_).subspan(starts_[at], starts_[at + 1] - starts_[at]);
  }

  void add_lane(uint32_t lane, std::vector<std::vector<Wave>>& kernels) const {
    int32_t tile = -1;
    size_t kernel = 0, begun = 0, later = 0;
    for (const uint32_t at : positions_[lane]) {
      const Instr& instr = draft_.plan.lanes[lane].instrs[draft_.program[at].pos];
      if (kernel == kernels.size()) kernels.emplace_back();
      std::vector<Wave>& waves = kernels[kernel];
      if (instr.op == Opcode::boundary) {
        ++kernel;
        tile = -1;
        begun = 0;
        continue;
      }
      const std::span<const SyncEdge> edges = edges_of(at);
      // Where the K of a tile is cut, its tasks follow each other.
      const bool begins = instr.op == Opcode::gemm && draft_.schedule_at(at).start == Start::wave;
      if (begins && instr.tile != std::exchange(tile, instr.tile)) {
        if (begun == waves.size()) waves.emplace_back();
        Wave& wave = waves[begun++];
        wave.begins.push_back(at);
        std::copy_if(
            edges.begin(), edges.end(), std::back_inserter(wave.pushed),
            [&](const SyncEdge& e) { return !is_compute(draft_.program[e.release].lane); });
        later = 0;
      } else if (begun > 0) {
        later += edges.size();
        waves[begun - 1].later = std::max(waves[begun - 1].later, later);
      }
    }
  }

  // Of each lane the last release, unless that is known.
  void keep_last(std::vector<SyncEdge>& pushed, const Progress& known) const {
    std::sort(pushed.begin(), pushed.end(),
              [](const SyncEdge& a, const SyncEdge& b) { return a.release < b.release; });
    const auto same = [](const SyncEdge& a, const SyncEdge& b) { return a.release == b.release; };
    pushed.erase(std::unique(pushed.begin(), pushed.end(), same), pushed.end());
    Progress all(draft_);
    for (const SyncEdge& edge : pushed) all.reach(edge.release);
    std::erase_if(pushed, [&](const SyncEdge& edge) {
      return !all.ends_with(edge.release) || known.includes(edge.release);
    });
  }

  const Draft& draft_;
  std::vector<SyncEdge>& edges_;                  // first those of `starts_`, then what is added
  std::vector<uint32_t> starts_;                  // by acquire
  std::vector<std::vector<uint32_t>> positions_;  // by lane, in the program
};

}  // namespace

void share_among_waves(const Draft& draft, const AlikeRanks* alike, std::vector<SyncEdge>& edges) {
  Sharing sharing(draft, edges);
  const int ranks = alike != nullptr ? 1 : draft.plan.ranks();
  for (int rank = 0; rank < ranks; ++rank) sharing.share(rank);
}

}  // namespace stretto

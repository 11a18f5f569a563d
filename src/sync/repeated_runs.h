// What follows from what across runs of a draft, without acknowledgements.
#pragma once

#include <span>
#include <tuple>
#include <vector>

#include "sync/edges.h"
#include "sync/run_history.h"

namespace stretto {

// Instructions are named by their position in Draft::program.
class RepeatedRuns {
 public:
  // `history` has had one run, with these edges; precedes() runs it on.
  RepeatedRuns(const Draft& draft, const std::vector<SyncEdge>& edges, RunHistory& history);

  // What is waited for.
  void take_edges(const std::vector<SyncEdge>& edges);

  uint16_t rank_of(uint32_t at) const { return rank_of_[at]; }

  std::span<const uint32_t> releases_for(uint32_t at) const {
    return std::span(releases_).subspan(starts_[at], starts_[at + 1] - starts_[at]);
  }

  // True when all that `before` does in a run ends before all that `after` does `lag` runs later:
  // of one rank by stream order; of two when the run between has heard from the other, whose run
  // before that had ended then.
  bool ordered(uint16_t before, uint16_t after, uint8_t lag) const {
    return before == after || (lag > 1 && hears_[after * ranks_ + before]);
  }

  // True when what `rank` did in earlier runs precedes `after`, which has heard from it in its own.
  bool hears(uint16_t rank, uint32_t after);

  // True for either reason, whatever it was that `rank` did.
  bool precedes_all(uint16_t rank, uint32_t after, uint8_t lag) {
    return ordered(rank, rank_of(after), lag) || hears(rank, after);
  }

  // True when `before` in a run precedes `after` in the run `lag` later, without acknowledgements.
  bool precedes(uint32_t before, uint32_t after, uint8_t lag);

  // Instructions of one rank with the same knowledge come after the same of other ranks.
  using Knowledge = std::tuple<uint16_t, uint32_t, uint32_t>;
  Knowledge knowledge(uint32_t after, uint8_t lag);

 private:
  enum class Answer : uint8_t { none, no, yes };

  bool asks(uint16_t rank, uint32_t after) const {
    return history_.clocks().hears(rank, history_.event(0, after));
  }
  void run_until(int last);

  const Draft& draft_;
  RunHistory& history_;
  const size_t ranks_;
  std::vector<bool> hears_;
  std::vector<Answer> answers_;  // where ranks are alike: of hears(), by rank 0's instruction, rank
  std::vector<uint16_t> rank_of_;  // by position
  std::vector<uint32_t> releases_;
  std::vector<size_t> starts_;
};

}  // namespace stretto

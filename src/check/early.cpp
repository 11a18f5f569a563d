#include "check/early.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "check/wording.h"

namespace stretto::checker {
namespace {

class EarlyCheck {
 public:
  EarlyCheck(const Plan& plan, const InstrIndex& index, const Counters& counters,
             const Execution& execution, Findings& findings)
      : plan_(plan),
        index_(index),
        counters_(counters),
        execution_(execution),
        findings_(findings) {}

  void run() {
    for (uint32_t c = 0; c < counters_.size() && !findings_.full(); ++c) {
      if (counters_[c].num_shares < 2) continue;
      const std::vector<const Share*> early = notifying_ahead(counters_[c]);
      if (early.empty()) continue;
      for (uint32_t wait : counters_.waits(counters_[c])) check_wait(c, early, wait);
    }
  }

 private:
  Event note(const Share& share, const Note& note, int run) const {
    return execution_.event(share.lane, index_.of(share.lane, note.pos), run);
  }

  // The lanes whose next notify may come before all of this run have.
  std::vector<const Share*> notifying_ahead(const Counter& counter) const {
    std::vector<const Share*> ahead;
    const std::span<const Share> shares = counters_.shares(counter);
    // Lanes are ordered by rank. Stream order keeps the runs of a lone rank apart.
    if (rank_of(shares.front()) == rank_of(shares.back())) return ahead;
    for (const Share& share : shares) {
      const Event next = note(share, counters_.notes(share).front(), counter.copies);
      if (!after_a_wait_for_all(counter, next) && !after_all(shares, next)) ahead.push_back(&share);
    }
    return ahead;
  }

  // Whether a wait for everything that run 0 notifies comes before `next`: then so does all that.
  bool after_a_wait_for_all(const Counter& counter, Event next) const {
    const std::span<const uint32_t> waits = counters_.waits(counter);
    return std::any_of(waits.begin(), waits.end(), [&](uint32_t wait) {
      const InstrRef ref = index_.ref(wait);
      const Instr& instr = plan_.lanes[ref.lane].instrs[ref.pos];
      return instr.lag == 0 && counters_.is_for_all(counter, ref.lane, instr.amount) &&
             execution_.clocks().precedes(execution_.event(ref.lane, wait, 0), next);
    });
  }

  // Whether everything that run 0 notifies comes before `next`.
  bool after_all(std::span<const Share> shares, Event next) const {
    const LaneClocks& clocks = execution_.clocks();
    size_t i = 0;
    while (i < shares.size()) {
      const uint16_t rank = rank_of(shares[i]);
      const bool all_of_rank = clocks.run_precedes(rank, 0, next);
      for (; i < shares.size() && rank_of(shares[i]) == rank; ++i) {
        if (all_of_rank) continue;
        const Note& last = counters_.notes(shares[i]).back();
        if (!clocks.precedes(note(shares[i], last, 0), next)) return false;
      }
    }
    return true;
  }

  uint16_t rank_of(const Share& share) const { return plan_.lanes[share.lane].rank; }

  void check_wait(uint32_t c, const std::vector<const Share*>& ahead, uint32_t wait) {
    const Counter& counter = counters_[c];
    const InstrRef ref = index_.ref(wait);
    const int lag = plan_.lanes[ref.lane].instrs[ref.pos].lag;
    const Event waited = execution_.event(ref.lane, wait, lag);
    for (const Share* share : ahead) {
      const Note& first = counters_.notes(*share).front();
      if (execution_.clocks().precedes(waited, note(*share, first, counter.copies))) continue;
      findings_.add(DiagnosticKind::early_threshold, c, [&] {
        const InstrRef notify{share->lane, first.pos};
        Diagnostic d;
        d.where = ref;
        d.other = notify;
        d.signal = name(plan_, counter);
        d.message = fmt::format(
            "{} can pass too early: rank {} may run ahead and count {} for a later run at {} "
            "while another rank has not counted for this one",
            at(plan_, ref), rank_of(*share), d.signal, at(plan_, notify));
        d.hint = fmt::format(
            "give each rank a counter of its own, or let rank {} hear from this lane before it "
            "notifies again",
            rank_of(*share));
        return d;
      });
      return;
    }
  }

  const Plan& plan_;
  const InstrIndex& index_;
  const Counters& counters_;
  const Execution& execution_;
  Findings& findings_;
};

}  // namespace

void check_early_thresholds(const Plan& plan, const InstrIndex& index, const Counters& counters,
                            const Execution& execution, Findings& findings) {
  EarlyCheck(plan, index, counters, execution, findings).run();
}

}  // namespace stretto::checker

#include "check/residency.h"

#include <fmt/format.h>

#include <utility>

#include "check/holders.h"
#include "check/wording.h"

namespace stretto::checker {
namespace {

bool is_block(const Lane& lane) {
  return lane.kind == LaneKind::compute || lane.kind == LaneKind::comm;
}

// What of a rank may find no SM.
struct Starving {
  bool blocks = false, collectives = false, signals = false;

  bool any() const { return blocks || collectives || signals; }
};

class Residency {
 public:
  Residency(const Plan& plan, int sms)
      : plan_(plan), sms_(static_cast<size_t>(std::max(sms, 1))), ranks_(num_ranks()) {
    for (const Lane& lane : plan.lanes) {
      Rank& rank = ranks_[lane.rank];
      rank.blocks += is_block(lane);
      rank.starving.collectives |= lane.kind == LaneKind::nccl;
      rank.starving.signals |= !is_block(lane);
    }
    for (Rank& rank : ranks_) rank.starving.blocks = rank.blocks > sms_;
    for (uint32_t l = 0; l < plan.lanes.size(); ++l) {
      Rank& rank = ranks_[plan.lanes[l].rank];
      if (is_block(plan.lanes[l]) && rank.starving.any()) add_holders(plan, l, rank.holders);
    }
    for (Rank& rank : ranks_) {
      const size_t most = most_of(rank.holders.compute);
      const bool blocks_fill = rank.holders.comm.size() + most >= sms_;
      rank.starving.blocks &= blocks_fill;
      rank.starving.collectives &= blocks_fill;
      rank.starving.signals &= most_of(rank.holders.in_gemm) >= sms_;
    }
  }

  bool all_fit() const {
    return std::none_of(ranks_.begin(), ranks_.end(),
                        [](const Rank& rank) { return rank.starving.any(); });
  }

  // Takes back what can be had after all: waits for it come to an end.
  void solve(const InstrIndex& index, const Counters& counters) {
    collect_needs(index, counters);
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t at = 0; at < ranks_.size(); ++at) {
        Rank& rank = ranks_[at];
        if (rank.starving.blocks || rank.starving.collectives) {
          rank.stuck = stuck_of(rank.holders.comm, rank.holders.compute);
          changed |= has_come_further(at, rank.stuck, had_by_blocks_);
          if (!fill(rank.stuck.holders)) {
            rank.starving.blocks = rank.starving.collectives = false;
            changed = true;
          }
        }
        if (rank.starving.signals) {
          rank.gemm_stuck = stuck_of({}, rank.holders.in_gemm);
          changed |= has_come_further(at, rank.gemm_stuck, had_by_gemm_);
          if (!fill(rank.gemm_stuck.holders)) {
            rank.starving.signals = false;
            changed = true;
          }
        }
      }
    }
  }

  void report(size_t at_rank, Findings& findings) const {
    const Rank& rank = ranks_[at_rank];
    if (!rank.starving.any()) return;
    findings.add(DiagnosticKind::not_resident, at_rank, [&] {
      const bool by_blocks = rank.starving.blocks || rank.starving.collectives;
      const Holder& holder = (by_blocks ? rank.stuck : rank.gemm_stuck).holders.front();
      Diagnostic d;
      const InstrRef first{holder.lane, holder.waits.front()};
      const Instr& wait = plan_.lanes[first.lane].instrs[first.pos];
      d.where = first;
      d.signal = fmt::format("{}@{}", describe(plan_, wait.signal), at_rank);
      d.message = fmt::format(
          "rank {} has {} block lanes for {} SMs, and enough of them to hold every SM wait for {}, "
          "the first at {}",
          at_rank, rank.blocks, sms_,
          rank.starving.blocks        ? "others"
          : rank.starving.collectives ? "collectives, which need an SM too"
                                      : "signals of copy or nccl lanes, which need an SM too",
          at(plan_, first));
      // A GPU of one SM cannot serve both at all.
      const bool for_blocks = rank.starving.blocks && !rank.starving.signals;
      const size_t most = for_blocks ? sms_ : sms_ - 1;
      d.hint = most > 0 ? fmt::format("use at most {} compute and comm lanes on a rank", most)
                        : std::string("use a GPU with more SMs, or boundaries behind the waits");
      return d;
    });
  }

  size_t num_ranks() const { return static_cast<size_t>(plan_.ranks()); }

 private:
  // In one kernel, the first that it can be: those that wait for what starves.
  struct Stuck {
    std::vector<Holder> holders;
    size_t kernel = 0;
  };
  struct Rank {
    size_t blocks = 0;
    Holders holders;
    Stuck stuck, gemm_stuck;
    Starving starving;
  };
  // A wait for what lanes do up to their last notifies of its counter.
  struct Need {
    uint32_t pos, counter;
  };
  // When that kernel of its rank begins, a lane that is no block has come so far.
  struct Awaited {
    size_t kernel;
    uint32_t end;
  };

  // Collectives start on the ranks that join them together, in one order on all: what came before
  // one of all ranks it says too.
  template <typename Visit>
  void follow_collectives(uint32_t index, uint32_t end, const Visit& need) const {
    const Lane& lane = plan_.lanes[index];
    for (size_t i = collectives_before(index, end); i-- > 0;) {
      const Plan::Joined joined = plan_.joined_by(lane.instrs[collectives_[index][i]], lane.rank);
      for (const uint32_t peer : collective_lanes_) {
        if (!joined.has(plan_.lanes[peer].rank) || collectives_[peer].size() <= i) continue;
        need(peer, collectives_[peer][i] + 1);
      }
      if (joined.count == plan_.ranks()) return;
    }
  }

  static size_t most_of(const std::vector<std::vector<Holder>>& by_kernel) {
    size_t most = 0;
    for (const auto& holders : by_kernel) most = std::max(most, holders.size());
    return most;
  }
  bool fill(const std::vector<Holder>& holders) const { return holders.size() >= sms_; }

  void collect_needs(const InstrIndex& index, const Counters& counters) {
    counters_ = &counters;
    needs_.resize(plan_.lanes.size());
    kernels_.assign(plan_.lanes.size(), {0});
    collectives_.resize(plan_.lanes.size());
    awaited_.resize(plan_.lanes.size());
    had_by_blocks_.assign(plan_.lanes.size(), 0);
    had_by_gemm_.assign(plan_.lanes.size(), 0);
    for (uint32_t lane = 0; lane < plan_.lanes.size(); ++lane) {
      const std::vector<Instr>& instrs = plan_.lanes[lane].instrs;
      for (uint32_t pos = 0; pos < instrs.size(); ++pos) {
        if (instrs[pos].op == Opcode::wait && instrs[pos].lag == 0) {
          needs_[lane].push_back({pos, counters.of(index.of(lane, pos))});
        }
        if (instrs[pos].op == Opcode::boundary) kernels_[lane].push_back(pos + 1);
        if (instrs[pos].op == Opcode::collective) collectives_[lane].push_back(pos);
      }
    }
    for (uint32_t lane = 0; lane < plan_.lanes.size(); ++lane) {
      if (!collectives_[lane].empty()) collective_lanes_.push_back(lane);
      collect_awaited(lane);
    }
  }

  // A kernel that begins has what its rank's compute lanes have waited for before.
  void collect_awaited(uint32_t lane) {
    if (plan_.lanes[lane].kind != LaneKind::compute) return;
    const std::vector<uint32_t>& kernels = kernels_[lane];
    for (const Need& one : needs_[lane]) {
      const Counter& counter = (*counters_)[one.counter];
      if (plan_.lanes[lane].instrs[one.pos].amount < counter.total) continue;
      const auto next = std::upper_bound(kernels.begin(), kernels.end(), one.pos);
      for (const Share& share : counters_->shares(counter)) {
        const Lane& by = plan_.lanes[share.lane];
        if (is_block(by) || by.rank != plan_.lanes[lane].rank) continue;
        awaited_[share.lane].push_back(
            {static_cast<size_t>(next - kernels.begin()), counters_->notes(share).back().pos + 1});
      }
    }
  }
  // Of the rank's lanes, in `had`.
  bool has_come_further(size_t rank, const Stuck& stuck, std::vector<uint32_t>& had) const {
    bool any = false;
    for (uint32_t lane = 0; lane < had.size(); ++lane) {
      if (awaited_[lane].empty() || plan_.lanes[lane].rank != rank) continue;
      const uint32_t end = awaited(lane, stuck.kernel);
      any |= end > had[lane];
      had[lane] = std::max(had[lane], end);
    }
    return any;
  }
  uint32_t awaited(uint32_t lane, size_t kernel) const {
    uint32_t end = 0;
    for (const Awaited& one : awaited_[lane]) {
      if (one.kernel <= kernel) end = std::max(end, one.end);
    }
    return end;
  }
  size_t collectives_before(uint32_t lane, uint32_t pos) const {
    const std::vector<uint32_t>& all = collectives_[lane];
    return static_cast<size_t>(std::lower_bound(all.begin(), all.end(), pos) - all.begin());
  }

  // Whether the lane may not come so far.
  bool starves(uint32_t index, uint32_t end) const {
    const Lane& lane = plan_.lanes[index];
    const Rank& rank = ranks_[lane.rank];
    if (is_block(lane)) return rank.starving.blocks;
    if (rank.starving.signals && end > had_by_gemm_[index]) return true;
    return rank.starving.collectives &&
           collectives_before(index, end) > collectives_before(index, had_by_blocks_[index]);
  }

  // Those of the first kernel in which as many wait for good as fill the SMs; else of none.
  Stuck stuck_of(const std::vector<Holder>& comm,
                 const std::vector<std::vector<Holder>>& by_kernel) const {
    const std::vector<Holder> always = stuck_among(comm, 0, {});
    if (fill(always)) return {always, 0};
    for (size_t kernel = 0; kernel < by_kernel.size(); ++kernel) {
      std::vector<Holder> stuck = stuck_among(by_kernel[kernel], kernel, always);
      if (fill(stuck)) return {std::move(stuck), kernel};
    }
    return {};
  }
  std::vector<Holder> stuck_among(const std::vector<Holder>& holders, size_t kernel,
                                  std::vector<Holder> stuck) const {
    for (const Holder& holder : holders) {
      if (fill(stuck)) break;
      if (waits_for_good(holder, kernel)) stuck.push_back(holder);
    }
    return stuck;
  }

  // Whether a block of a kernel needs, directly or through others, a lane that starves.
  bool waits_for_good(const Holder& holder, size_t kernel) const {
    const Lane& own = plan_.lanes[holder.lane];
    std::vector<uint32_t> done(plan_.lanes.size(), 0);  // by lane: up to where it is needed
    std::vector<bool> counter_seen(counters_->size(), false);
    struct Part {
      uint32_t lane, begin, end;
    };
    std::vector<Part> open;
    bool found = false;
    const auto need = [&](uint32_t index, uint32_t end) {
      const Lane& lane = plan_.lanes[index];
      if (index == holder.lane || done[index] >= end) return;
      uint32_t begin = done[index];
      // The kernels before, and what came at their boundaries, are over on this rank.
      const bool beside = lane.kind == LaneKind::compute && own.kind == LaneKind::compute &&
                          lane.rank == own.rank && kernel < kernels_[index].size();
      if (beside) begin = std::max(begin, kernels_[index][kernel]);
      if (begin >= end) return;
      done[index] = end;
      found = found || starves(index, end);
      open.push_back({index, begin, end});
    };
    const auto follow = [&](uint32_t counter) {
      if (counter_seen[counter]) return;
      counter_seen[counter] = true;
      for (const Share& share : counters_->shares((*counters_)[counter])) {
        need(share.lane, counters_->notes(share).back().pos + 1);
      }
    };
    const auto follow_waits = [&](const Part& part) {
      auto one = std::lower_bound(needs_[part.lane].begin(), needs_[part.lane].end(), part.begin,
                                  [](const Need& a, uint32_t pos) { return a.pos < pos; });
      for (; one != needs_[part.lane].end() && one->pos < part.end; ++one) follow(one->counter);
    };
    // A boundary needs all compute lanes of its rank.
    std::vector<size_t> boundaries_seen(ranks_.size(), 0);
    const auto follow_boundaries = [&](uint32_t lane, uint32_t end) {
      const std::vector<uint32_t>& kernels = kernels_[lane];
      const auto passed = static_cast<size_t>(
          std::upper_bound(kernels.begin(), kernels.end(), end) - kernels.begin() - 1);
      const uint16_t rank = plan_.lanes[lane].rank;
      if (plan_.lanes[lane].kind != LaneKind::compute || passed <= boundaries_seen[rank]) return;
      boundaries_seen[rank] = passed;
      for (uint32_t mate = 0; mate < plan_.lanes.size(); ++mate) {
        const bool is_mate =
            plan_.lanes[mate].kind == LaneKind::compute && plan_.lanes[mate].rank == rank;
        if (is_mate && passed < kernels_[mate].size()) need(mate, kernels_[mate][passed]);
      }
    };
    for (const uint32_t pos : holder.waits) follow_waits({holder.lane, pos, pos + 1});
    while (!open.empty() && !found) {
      const Part part = open.back();
      open.pop_back();
      follow_waits(part);
      follow_boundaries(part.lane, part.end);
      follow_collectives(part.lane, part.end, need);
    }
    return found;
  }

  const Plan& plan_;
  size_t sms_;
  std::vector<Rank> ranks_;
  const Counters* counters_ = nullptr;
  std::vector<std::vector<Need>> needs_;            // by lane, of waits without lag
  std::vector<std::vector<uint32_t>> kernels_;      // by lane: where each begins
  std::vector<std::vector<uint32_t>> collectives_;  // by lane: where each starts
  std::vector<std::vector<Awaited>> awaited_;       // by lane
  // By lane: how far it has come when blocks of its rank, or of its GEMM, may fill the SMs.
  std::vector<uint32_t> had_by_blocks_, had_by_gemm_;
  std::vector<uint32_t> collective_lanes_;  // that have some
};

}  // namespace

bool all_fit(const Plan& plan, int sms) { return Residency(plan, sms).all_fit(); }

void check_residency(const Plan& plan, const InstrIndex& index, const Counters& counters, int sms,
                     Findings& findings) {
  Residency residency(plan, sms);
  if (residency.all_fit()) return;
  residency.solve(index, counters);
  for (size_t rank = 0; rank < residency.num_ranks(); ++rank) residency.report(rank, findings);
}

}  // namespace stretto::checker

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
      for (Rank& rank : ranks_) {
        const auto update = [&](bool& starving, bool fills) {
          changed |= starving && !fills;
          starving = starving && fills;
        };
        if (rank.starving.blocks || rank.starving.collectives) {
          rank.stuck = stuck_of(rank.holders.comm, rank.holders.compute);
          update(rank.starving.blocks, fill(rank.stuck));
          update(rank.starving.collectives, fill(rank.stuck));
        }
        if (rank.starving.signals) {
          rank.gemm_stuck = stuck_of({}, rank.holders.in_gemm);
          update(rank.starving.signals, fill(rank.gemm_stuck));
        }
      }
    }
  }

  void report(size_t at_rank, Findings& findings) const {
    const Rank& rank = ranks_[at_rank];
    if (!rank.starving.any()) return;
    findings.add(DiagnosticKind::not_resident, at_rank, [&] {
      const bool by_blocks = rank.starving.blocks || rank.starving.collectives;
      const Holder& holder = by_blocks ? rank.stuck.front() : rank.gemm_stuck.front();
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
  struct Rank {
    size_t blocks = 0;
    Holders holders;
    std::vector<Holder> stuck, gemm_stuck;  // in one kernel: those that wait for what starves
    Starving starving;
  };
  // A wait for what lanes do up to their last notifies of its counter.
  struct Need {
    uint32_t pos, counter;
  };

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
    for (uint32_t lane = 0; lane < plan_.lanes.size(); ++lane) {
      const std::vector<Instr>& instrs = plan_.lanes[lane].instrs;
      for (uint32_t pos = 0; pos < instrs.size(); ++pos) {
        if (instrs[pos].op == Opcode::wait && instrs[pos].lag == 0) {
          needs_[lane].push_back({pos, counters.of(index.of(lane, pos))});
        }
        if (instrs[pos].op == Opcode::boundary) kernels_[lane].push_back(pos + 1);
        const bool is_first = collective_lanes_.empty() || collective_lanes_.back() != lane;
        if (instrs[pos].op == Opcode::collective && is_first) collective_lanes_.push_back(lane);
      }
    }
  }

  bool starves(const Lane& lane) const {
    const Starving& starving = ranks_[lane.rank].starving;
    if (is_block(lane)) return starving.blocks;
    return starving.signals || (lane.kind == LaneKind::nccl && starving.collectives);
  }

  // The most that wait for good at once; no more than fill the SMs.
  std::vector<Holder> stuck_of(const std::vector<Holder>& comm,
                               const std::vector<std::vector<Holder>>& by_kernel) const {
    std::vector<Holder> most = stuck_among(comm, 0, {});
    const std::vector<Holder> always = most;
    for (size_t kernel = 0; kernel < by_kernel.size(); ++kernel) {
      std::vector<Holder> stuck = stuck_among(by_kernel[kernel], kernel, always);
      if (stuck.size() > most.size()) most = std::move(stuck);
    }
    return most;
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
    bool collectives_seen = false, found = false;
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
      found = found || starves(lane);
      open.push_back({index, begin, end});
    };
    const auto follow = [&](uint32_t counter) {
      if (counter_seen[counter]) return;
      counter_seen[counter] = true;
      for (const Share& share : counters_->shares((*counters_)[counter])) {
        need(share.lane, counters_->notes(share).back().pos);
      }
    };
    const auto follow_waits = [&](const Part& part) {
      auto one = std::lower_bound(needs_[part.lane].begin(), needs_[part.lane].end(), part.begin,
                                  [](const Need& a, uint32_t pos) { return a.pos < pos; });
      for (; one != needs_[part.lane].end() && one->pos < part.end; ++one) follow(one->counter);
    };
    for (const uint32_t pos : holder.waits) follow_waits({holder.lane, pos, pos + 1});
    while (!open.empty() && !found) {
      const Part part = open.back();
      open.pop_back();
      follow_waits(part);
      if (plan_.lanes[part.lane].kind != LaneKind::nccl || collectives_seen) continue;
      collectives_seen = true;
      for (const uint32_t peer : collective_lanes_) {
        need(peer, static_cast<uint32_t>(plan_.lanes[peer].instrs.size()));
      }
    }
    return found;
  }

  const Plan& plan_;
  size_t sms_;
  std::vector<Rank> ranks_;
  const Counters* counters_ = nullptr;
  std::vector<std::vector<Need>> needs_;        // by lane, of waits without lag
  std::vector<std::vector<uint32_t>> kernels_;  // by lane: where each begins
  std::vector<uint32_t> collective_lanes_;
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

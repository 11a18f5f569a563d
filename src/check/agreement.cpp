#include "check/agreement.h"

#include <fmt/format.h>

#include <algorithm>

#include "check/wording.h"
#include "plan/chosen_operands.h"

namespace stretto::checker {
namespace {

class AgreementCheck {
 public:
  AgreementCheck(const Plan& plan, Findings& findings)
      : plan_(plan),
        findings_(findings),
        collectives_(static_cast<size_t>(plan.ranks())),
        boundaries_of_(static_cast<size_t>(plan.ranks()), kNone) {}

  bool run() {
    for (uint32_t lane = 0; lane < plan_.lanes.size(); ++lane) collect(lane);
    for (size_t rank = 1; rank < collectives_.size(); ++rank) compare_order(rank);
    if (agree_) compare_ids();
    if (agree_) compare_shapes();
    return agree_;
  }

 private:
  static constexpr uint32_t kNone = ~uint32_t{0};

  const Instr& instr(InstrRef ref) const { return plan_.lanes[ref.lane].instrs[ref.pos]; }

  // Notes the lane's collectives, and compares its boundaries with the rank's first compute lane.
  void collect(uint32_t l) {
    const Lane& lane = plan_.lanes[l];
    std::vector<InstrRef> passed;
    for (uint32_t pos = 0; pos < lane.instrs.size(); ++pos) {
      const InstrRef ref{l, pos};
      if (lane.instrs[pos].op == Opcode::collective) collectives_[lane.rank].push_back(ref);
      if (lane.instrs[pos].op != Opcode::boundary) continue;
      passed.push_back(ref);
      if (lane.kind != LaneKind::compute) {
        report(ref, {}, fmt::format("{} is not on a compute lane", at(plan_, ref)),
               "boundaries order the compute lanes of a rank");
      }
    }
    if (lane.kind != LaneKind::compute) return;
    uint32_t& first = boundaries_of_[lane.rank];
    if (first == kNone) {
      first = l;
      first_boundaries_ = std::move(passed);
    } else {
      compare_boundaries(first, l, passed);
    }
  }

  void compare_boundaries(uint32_t first, uint32_t l, const std::vector<InstrRef>& passed) {
    for (size_t i = 0; i < std::max(first_boundaries_.size(), passed.size()); ++i) {
      const InstrRef* a = i < first_boundaries_.size() ? &first_boundaries_[i] : nullptr;
      const InstrRef* b = i < passed.size() ? &passed[i] : nullptr;
      if (a && b && instr(*a).id == instr(*b).id) continue;
      report(b ? *b : *a, b && a ? std::optional(*a) : std::nullopt,
             fmt::format("{} has {} as boundary number {}, {} has {}", lane_name(plan_, l),
                         b ? what(plan_, *b) : "nothing", i, lane_name(plan_, first),
                         a ? what(plan_, *a) : "nothing"),
             "all compute lanes of a rank pass the same boundaries in the same order");
      return;
    }
  }

  static bool has_same_number(const Instr& a, const Instr& b) {
    const CollectiveForm& form = form_of(a.collective);
    return (form.attribute.empty() || a.attribute() == b.attribute()) &&
           (form.count.empty() || a.count(0) == b.count(0));
  }

  // Each rank against rank 0, place by place.
  void compare_order(size_t rank) {
    const std::vector<InstrRef>& ours = collectives_[0];
    const std::vector<InstrRef>& theirs = collectives_[rank];
    for (size_t i = 0; i < std::max(ours.size(), theirs.size()); ++i) {
      const InstrRef* a = i < ours.size() ? &ours[i] : nullptr;
      const InstrRef* b = i < theirs.size() ? &theirs[i] : nullptr;
      if (a && b && instr(*a).id == instr(*b).id && instr(*a).collective == instr(*b).collective &&
          instr(*a).team == instr(*b).team && instr(*a).kernel() == instr(*b).kernel() &&
          has_same_number(instr(*a), instr(*b)) &&
          plan_.lanes[a->lane].kind == plan_.lanes[b->lane].kind &&
          plan_.lanes[a->lane].index == plan_.lanes[b->lane].index) {
        continue;
      }
      report(b ? *b : *a, a && b ? std::optional(*a) : std::nullopt,
             fmt::format("rank {} has {} as collective number {}, rank 0 has {}", rank,
                         b ? at(plan_, *b) : "nothing", i, a ? at(plan_, *a) : "nothing"),
             "all ranks run the same collectives in the same order");
      return;
    }
  }

  void compare_ids() {
    std::vector<std::pair<int32_t, InstrRef>> ids;
    for (const InstrRef& ref : collectives_[0]) ids.emplace_back(instr(ref).id, ref);
    std::stable_sort(ids.begin(), ids.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (size_t i = 1; i < ids.size(); ++i) {
      if (ids[i - 1].first != ids[i].first) continue;
      report(ids[i].second, ids[i - 1].second,
             fmt::format("{} has the number of {}", at(plan_, ids[i].second),
                         at(plan_, ids[i - 1].second)),
             "give every collective of a plan a number of its own");
    }
  }

  void compare_shapes() {
    for (size_t i = 0; i < collectives_[0].size(); ++i) {
      for (size_t rank = 0; rank < collectives_.size() && agree_; ++rank) pair_up(i, rank);
    }
  }

  // Compares the shapes of what `rank` gets from every rank that it joins in collective number `i`.
  void pair_up(size_t i, size_t rank) {
    const InstrRef mine = collectives_[rank][i];
    const std::span<const Region> to = plan_.writes(instr(mine));
    const CollectiveForm& form = form_of(instr(mine).collective);
    if (form.goes_by_ids()) return compare_chosen(mine, collectives_[0][i]);
    const Plan::Joined joined = plan_.joined_by(instr(mine), static_cast<int>(rank));
    const auto ranks = static_cast<size_t>(joined.count), team = static_cast<size_t>(joined.first);
    const size_t peers = form.groups_reads || form.groups_writes ? ranks : 1;
    for (size_t peer = 0; peer < peers; ++peer) {
      const InstrRef theirs = collectives_[team + peer][i];
      const std::span<const Region> from = plan_.reads(instr(theirs));
      // Region from_first + j of the peer meets region to_first + j here.
      const size_t moved_from = from.size() - form.own_reads,
                   moved_to = to.size() - form.own_writes;
      const size_t count = form.parts(from.size(), ranks);
      const size_t from_first = form.groups_reads ? (rank - team) * count : 0;
      const size_t to_first = form.groups_writes ? peer * count : 0;
      const bool counts_fit = moved_from == count * (form.groups_reads ? peers : 1) &&
                              moved_to == count * (form.groups_writes ? peers : 1);
      if (!counts_fit) {
        report(mine, theirs,
               fmt::format("{} writes {}, but {} reads {}", at(plan_, mine),
                           counted(static_cast<int64_t>(to.size()), "region"), at(plan_, theirs),
                           counted(static_cast<int64_t>(from.size()), "region")),
               "all ranks pass equally many regions to a collective");
        return;
      }
      for (size_t j = 0; j < count; ++j) {
        const Region& source = from[from_first + j];
        const Region& target = to[to_first + j];
        if (source.rows() == target.rows() && source.cols() == target.cols()) continue;
        report(mine, theirs,
               fmt::format("{} gets {} from {} of {}", at(plan_, mine), describe(plan_, target),
                           describe(plan_, source), at(plan_, theirs)),
               "regions that a collective pairs must have one shape");
        return;
      }
    }
  }

  // Collectives that go by ids pair no regions: each rank says all of its sizes itself.
  void compare_chosen(InstrRef mine, InstrRef first) {
    const Instr &a = instr(mine), &b = instr(first);
    if (chosen_operands(plan_, a) == chosen_operands(plan_, b) && a.num_reads == b.num_reads &&
        a.num_writes == b.num_writes) {
      return;
    }
    report(mine, first,
           fmt::format("{} has other tokens, choices or columns than {}", at(plan_, mine),
                       at(plan_, first)),
           "all ranks pass the same sizes to a collective");
  }

  void report(InstrRef where, std::optional<InstrRef> other, std::string message,
              std::string hint) {
    agree_ = false;
    findings_.add(DiagnosticKind::mismatched_collective, uint64_t{where.lane} << 32 | where.pos,
                  [&] {
                    Diagnostic d;
                    d.where = where;
                    d.other = other;
                    d.message = std::move(message);
                    d.hint = std::move(hint);
                    return d;
                  });
  }

  const Plan& plan_;
  Findings& findings_;
  std::vector<std::vector<InstrRef>> collectives_;  // by rank
  std::vector<uint32_t> boundaries_of_;             // by rank: its first compute lane
  std::vector<InstrRef> first_boundaries_;          // of the current rank's first compute lane
  bool agree_ = true;
};

}  // namespace

bool check_agreement(const Plan& plan, Findings& findings) {
  return AgreementCheck(plan, findings).run();
}

}  // namespace stretto::checker

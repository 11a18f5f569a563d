#include "check/program_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "check/wording.h"
#include "stretto/error.h"

namespace stretto::checker {
namespace {

// Of a stream: so many of its steps have ended, and whose end that is.
struct Ended {
  uint32_t steps = 0;
  InstrRef by;
};
// By stream: what a place in a lane stands behind.
using Behind = std::vector<Ended>;

void learn(const Behind& from, Behind& to) {
  for (size_t s = 0; s < to.size(); ++s) {
    if (from[s].steps > to[s].steps) to[s] = from[s];
  }
}
void learn(StepPlace ended, InstrRef by, Behind& to) {
  if (ended.step + 1 > to[ended.stream].steps) to[ended.stream] = {ended.step + 1, by};
}

// By counter: waits and notifies of the plan that no program makes.
struct LeftOut {
  uint32_t waits = 0, notifies = 0;
};

// A wait that is made apart from its lane's blocks.
struct MadeWait {
  InstrRef ref;
  StepPlace at;
};

class Lanes {
 public:
  Lanes(const Plan& plan, const InstrIndex& index, const Counters& counters,
        const std::vector<cuda::RankProgram>& programs, const ProgramPlaces& places,
        const std::vector<StreamClocks>& clocks, Findings& findings)
      : plan_(plan),
        index_(index),
        counters_(counters),
        programs_(programs),
        places_(places),
        clocks_(clocks),
        findings_(findings),
        lanes_(plan.lanes.size()),
        left_out_(counters.size()),
        at_boundary_(programs.size()),
        compute_lanes_(programs.size(), 0) {
    for (uint32_t l = 0; l < lanes_.size(); ++l) {
      const Lane& lane = plan.lanes[l];
      compute_lanes_[lane.rank] += lane.kind == LaneKind::compute;
      lanes_[l].behind.resize(programs[lane.rank].streams.size());
      look_at(l);
    }
  }

  void run() {
    for (uint32_t l = static_cast<uint32_t>(lanes_.size()); l-- > 0;) ready_.push_back(l);
    while (!ready_.empty()) {
      const uint32_t lane = ready_.back();
      ready_.pop_back();
      advance(lane);
    }
    for (const Walk& lane : lanes_) {
      STRETTO_ASSERT(lane.has_ended || findings_.full(), "a lane of a plan that ends does not");
    }
  }

 private:
  struct Walk {
    uint32_t pos = 0;
    size_t piece = 0;  // the next
    bool has_ended = false;
    Behind behind;
    std::vector<uint32_t> waiting;  // lanes that go on once this one has come further
  };

  const Instr& instr(InstrRef ref) const { return plan_.lanes[ref.lane].instrs[ref.pos]; }
  uint32_t counter_of(InstrRef ref) const { return counters_.of(index_.of(ref)); }

  // Calls visit(pos) for what no piece of the lane has.
  template <typename Visit>
  void for_each_left_out(uint32_t lane, const Visit& visit) const {
    uint32_t pos = 0;
    for (const Piece& piece : places_.of(lane)) {
      for (; pos < piece.begin; ++pos) visit(pos);
      pos = piece.end;
    }
    for (; pos < plan_.lanes[lane].instrs.size(); ++pos) visit(pos);
  }

  void look_at(uint32_t lane) {
    for_each_left_out(lane, [&](uint32_t pos) {
      const InstrRef ref{lane, pos};
      if (!instr(ref).is_sync()) return;
      LeftOut& left_out = left_out_[counter_of(ref)];
      ++(instr(ref).op == Opcode::wait ? left_out.waits : left_out.notifies);
    });
    for (const Piece& piece : places_.of(lane)) {
      if (!piece.is_wait) continue;
      const InstrRef ref{lane, piece.begin};
      made_[counter_of(ref)].push_back({ref, piece.at});
    }
  }

  void advance(uint32_t l) {
    Walk& lane = lanes_[l];
    const std::vector<Instr>& instrs = plan_.lanes[l].instrs;
    const std::span<const Piece> pieces = places_.of(l);
    while (lane.pos < instrs.size()) {
      if (lane.piece < pieces.size() && pieces[lane.piece].begin == lane.pos) {
        pass_piece(l, pieces[lane.piece++]);
        continue;
      }
      const InstrRef ref{l, lane.pos};
      // A deliver needs nothing: all of the run has ended before the caller reads.
      const Opcode op = instrs[lane.pos].op;
      if (op == Opcode::boundary) return meet(l);
      if (op == Opcode::wait && !pass_wait(ref)) return;
      if (op == Opcode::notify) pass_notify(ref);
      ++lane.pos;
    }
    lane.has_ended = true;
    wake(lane);
  }

  void wake(Walk& lane) {
    ready_.insert(ready_.end(), lane.waiting.begin(), lane.waiting.end());
    lane.waiting.clear();
  }

  void pass_piece(uint32_t l, const Piece& piece) {
    Walk& lane = lanes_[l];
    const InstrRef first{l, piece.begin};
    const uint16_t rank = plan_.lanes[l].rank;
    for (uint32_t s = 0; s < lane.behind.size() && !piece.is_wait; ++s) {
      const Ended& before = lane.behind[s];
      if (before.steps <= clocks_[rank].ended(s, piece.at)) continue;
      report_order(first, piece.at, before.by, {s, before.steps - 1});
    }
    learn(piece.at, {l, piece.end - 1}, lane.behind);
    lane.pos = piece.end;
  }

  // Of the two, which the plan has in this order: the program need not.
  void report_order(InstrRef second, StepPlace where, InstrRef first, StepPlace before) {
    const uint16_t rank = plan_.lanes[second.lane].rank;
    const uint64_t cause = uint64_t{rank} << 32 | where.stream << 16 | before.stream;
    findings_.add(DiagnosticKind::program_order, cause, [&] {
      const cuda::RankProgram& program = programs_[rank];
      Diagnostic d;
      d.where = second;
      d.other = first;
      d.message = fmt::format("{} in {} may begin before {} has ended in {}", at(plan_, second),
                              at(plan_, program, rank, where), at(plan_, first),
                              at(plan_, program, rank, before));
      d.hint = where.stream == before.stream
                   ? "the step of the first should stand before that of the second"
                   : "an event should be recorded behind the first and awaited before the second";
      return d;
    });
  }

  // A boundary: who comes behind it comes behind all that stands before it in any lane.
  void meet(uint32_t l) {
    const uint16_t rank = plan_.lanes[l].rank;
    std::vector<uint32_t>& arrived = at_boundary_[rank];
    arrived.push_back(l);
    if (arrived.size() < compute_lanes_[rank]) return;
    Behind& all = lanes_[arrived.front()].behind;
    for (const uint32_t lane : arrived) learn(lanes_[lane].behind, all);
    for (const uint32_t lane : arrived) {
      learn(all, lanes_[lane].behind);
      ++lanes_[lane].pos;
    }
    ready_.insert(ready_.end(), arrived.begin(), arrived.end());
    arrived.clear();
  }

  void pass_notify(InstrRef ref) {
    Walk& lane = lanes_[ref.lane];
    told_.emplace(index_.of(ref), lane.behind);
    wake(lane);
    const uint32_t c = counter_of(ref);
    if (left_out_[c].waits == counters_[c].num_waits) return;
    findings_.add(DiagnosticKind::lost_notify, c, [&] {
      Diagnostic d;
      d.where = ref;
      d.signal = name(plan_, counters_[c]);
      d.message =
          fmt::format("{} is made by nothing in rank {}'s program, and its counter is awaited",
                      at(plan_, ref), plan_.lanes[ref.lane].rank);
      d.hint = "a block or a step should make it, or events should stand for every wait";
      return d;
    });
  }

  // A wait that the program leaves out; false: once another lane has come further.
  bool pass_wait(InstrRef ref) {
    const uint32_t c = counter_of(ref);
    Behind& behind = lanes_[ref.lane].behind;
    if (const MadeWait* const made = find_instead(ref, c)) {
      learn(made->at, made->ref, behind);
      return true;
    }
    const Instr& wait = instr(ref);
    const uint16_t rank = plan_.lanes[ref.lane].rank;
    for (const Share& share : counters_.shares(counters_[c])) {
      const uint32_t pos = needed_of(share, ref);
      if (pos == kNone) continue;
      if (plan_.lanes[share.lane].rank != rank) {
        report_lost(ref, {share.lane, pos});
        return true;
      }
      if (wait.lag > 0) continue;  // runs of a rank follow one another
      if (const Piece* const piece = places_.find(share.lane, pos)) {
        learn(piece->at, {share.lane, pos}, behind);
        continue;
      }
      const auto told = told_.find(index_.of(share.lane, pos));
      if (told == told_.end()) {
        lanes_[share.lane].waiting.push_back(ref.lane);
        return false;
      }
      learn(told->second, behind);
    }
    return true;
  }

  // A wait that is made somewhere on the rank and knows all that this one would: the first.
  const MadeWait* find_instead(InstrRef ref, uint32_t c) const {
    const auto made = made_.find(c);
    if (made == made_.end()) return nullptr;
    const Instr& wait = instr(ref);
    if (!counters_.is_for_all(counters_[c], ref.lane, wait.amount) && adds(ref.lane, c)) {
      return nullptr;  // it knows what its own lane has not added yet
    }
    const MadeWait* first = nullptr;
    for (const MadeWait& one : made->second) {
      if (instr(one.ref).lag != wait.lag || instr(one.ref).amount < wait.amount) continue;
      const auto place = [](const MadeWait& w) { return std::pair(w.at.stream, w.at.step); };
      if (first == nullptr || place(one) < place(*first)) first = &one;
    }
    return first;
  }
  bool adds(uint32_t lane, uint32_t c) const {
    const auto shares = counters_.shares(counters_[c]);
    return std::any_of(shares.begin(), shares.end(),
                       [&](const Share& share) { return share.lane == lane; });
  }

  // As Execution::learn() has it, within one run: the first notify of the lane without which the
  // wait could not pass; kNone: there is none. Of a run before, the last.
  static constexpr uint32_t kNone = UINT32_MAX;
  uint32_t needed_of(const Share& share, InstrRef ref) const {
    const Counter& counter = counters_[counter_of(ref)];
    const std::span<const Note> notes = counters_.notes(share);
    const Instr& wait = instr(ref);
    if (wait.lag > 0) return notes.back().pos;
    if (share.lane == ref.lane) return kNone;
    const int64_t needed = wait.amount - (counter.total - own_later(counter, ref) - share.sum);
    if (needed <= 0) return kNone;
    return std::lower_bound(notes.begin(), notes.end(), needed,
                            [](const Note& n, int64_t want) { return n.upto < want; })
        ->pos;
  }
  // What the waiting lane itself adds behind the wait.
  int64_t own_later(const Counter& counter, InstrRef ref) const {
    for (const Share& share : counters_.shares(counter)) {
      if (share.lane != ref.lane) continue;
      int64_t added = 0;
      for (const Note& note : counters_.notes(share)) {
        if (note.pos < ref.pos) added = note.upto;
      }
      return share.sum - added;
    }
    return 0;
  }

  void report_lost(InstrRef ref, InstrRef notify) {
    const uint32_t c = counter_of(ref);
    findings_.add(DiagnosticKind::lost_wait, c, [&] {
      Diagnostic d;
      d.where = ref;
      d.other = notify;
      d.signal = name(plan_, counters_[c]);
      d.message = fmt::format(
          "{} is made by nothing in rank {}'s program, and no event of it stands for {}",
          at(plan_, ref), plan_.lanes[ref.lane].rank, at(plan_, notify));
      d.hint = "a block should make it behind its last task, or a step behind the kernel";
      return d;
    });
  }

  const Plan& plan_;
  const InstrIndex& index_;
  const Counters& counters_;
  const std::vector<cuda::RankProgram>& programs_;
  const ProgramPlaces& places_;
  const std::vector<StreamClocks>& clocks_;
  Findings& findings_;
  std::vector<Walk> lanes_;
  std::vector<LeftOut> left_out_;                             // by counter
  std::unordered_map<uint32_t, std::vector<MadeWait>> made_;  // by counter
  std::unordered_map<uint32_t, Behind> told_;                 // by notify that is left out
  std::vector<std::vector<uint32_t>> at_boundary_;            // by rank: lanes that have arrived
  std::vector<uint32_t> compute_lanes_;                       // by rank: how many
  std::vector<uint32_t> ready_;
};

}  // namespace

void check_program_order(const Plan& plan, const InstrIndex& index, const Counters& counters,
                         const std::vector<cuda::RankProgram>& programs,
                         const ProgramPlaces& places, const std::vector<StreamClocks>& clocks,
                         Findings& findings) {
  Lanes(plan, index, counters, programs, places, clocks, findings).run();
}

}  // namespace stretto::checker

#include "check/memory.h"

#include <fmt/format.h>

#include <algorithm>

#include "check/order_hint.h"
#include "check/place_sweep.h"
#include "check/wording.h"

namespace stretto::checker {
namespace {

// All accesses of a run but those of inputs, which tasks only read; by buffer, rank and order.
std::vector<Access> find_accesses(const Plan& plan, const InstrIndex& index,
                                  const Execution& execution) {
  std::vector<Access> accesses;
  for (uint32_t lane = 0; lane < plan.lanes.size(); ++lane) {
    const std::vector<Instr>& instrs = plan.lanes[lane].instrs;
    for (uint32_t pos = 0; pos < instrs.size(); ++pos) {
      if (!instrs[pos].is_task()) continue;
      const uint32_t instr = index.of(lane, pos);
      auto add = [&](const Region& region, bool is_write) {
        if (region.empty() || plan.buffers[region.buffer].role == BufferRole::input) return;
        accesses.push_back({region, instr, execution.order(instr), is_write});
      };
      for (const Region& region : plan.reads(instrs[pos])) add(region, false);
      for (const Region& region : plan.writes(instrs[pos])) add(region, true);
    }
  }
  std::sort(accesses.begin(), accesses.end(), [](const Access& a, const Access& b) {
    if (a.region.buffer != b.region.buffer) return a.region.buffer < b.region.buffer;
    if (a.region.rank != b.region.rank) return a.region.rank < b.region.rank;
    return a.order != b.order ? a.order < b.order : a.is_write < b.is_write;
  });
  return accesses;
}

// Checks the accesses to one buffer on one rank.
class PlaceCheck {
 public:
  PlaceCheck(const Plan& plan, const InstrIndex& index, const Execution& execution,
             Findings& findings)
      : plan_(plan), index_(index), execution_(execution), findings_(findings) {}

  void run(uint16_t buffer, uint16_t rank, std::span<const Access> accesses) {
    buffer_ = buffer;
    rank_ = rank;
    accesses_ = accesses;
    const Buffer& declared = plan_.buffers[buffer];
    const bool is_output = declared.role == BufferRole::output;
    PlaceSweep sweep(accesses, is_output ? declared.rows_on(rank) : 0,
                     is_output ? declared.cols : 0);
    sweep.for_each([&](Region place, std::span<const uint32_t> here) {
      place.buffer = buffer;
      place.rank = rank;
      check_place(place, here);
      return !findings_.full();
    });
  }

  size_t pairs_proved() const { return pairs_proved_; }

 private:
  static constexpr uint32_t kNone = ~uint32_t{0};

  void check_place(const Region& place, std::span<const uint32_t> here) {
    // It suffices to look at neighbours in the order of execution: order is transitive.
    uint32_t first_write = kNone, last_write = kNone, previous_write = kNone;
    readers_.clear();  // since the last write
    for (uint32_t a : here) {
      if (!accesses_[a].is_write) {
        if (last_write != kNone) check_read(a, last_write, previous_write);
        readers_.push_back(a);
        continue;
      }
      if (last_write == kNone) {
        for (uint32_t reader : readers_) report_stale_read(reader, a);
        first_write = a;
      } else {
        check_rewrite(last_write, a);
        for (uint32_t reader : readers_) check_overwrite(reader, a);
      }
      readers_.clear();
      previous_write = last_write;
      last_write = a;
    }

    const bool is_output = plan_.buffers[buffer_].role == BufferRole::output;
    if (last_write == kNone) {
      for (uint32_t reader : readers_) report_never_written(reader, place);
      const bool exists = place.row0 >= 0 && place.row1 <= plan_.buffers[buffer_].rows_on(rank_) &&
                          place.col0 >= 0 && place.col1 <= plan_.buffers[buffer_].cols;
      if (is_output && exists) report_unwritten(place);
      return;
    }
    if (is_output) {
      check_delivered(last_write);
      if (!check_caller_is_done(first_write)) return;
    }
    check_next_run(last_write, first_write);
    for (uint32_t reader : readers_) check_next_run(reader, first_write);
  }

  void check_read(uint32_t read, uint32_t write, uint32_t previous_write) {
    if (ordered(write, 0, read, 0)) return;
    // A read that knows an older write is taken to want that one.
    if (previous_write != kNone && ordered(previous_write, 0, read, 0)) {
      return report_overwrite(read, write);
    }
    findings_.add(DiagnosticKind::read_before_write, cause(read), [&] {
      Diagnostic d = about(read, write, 0);
      d.message = fmt::format("{} reads {}, which {} writes without an order between them",
                              task(read), region(read), task(write));
      return d;
    });
  }

  // `write` is the first of this place in the run, and not before `read`.
  void report_stale_read(uint32_t read, uint32_t write) {
    findings_.add(DiagnosticKind::read_before_write, cause(read), [&] {
      Diagnostic d = about(read, write, 0);
      if (ref(read) == ref(write)) {
        d.message =
            fmt::format("{} reads {}, which nobody but it writes", task(read), region(read));
        d.hint = "a task must write this place before in the same run";
      } else if (ordered(read, 0, write, 0)) {
        d.message =
            fmt::format("{} reads {} before {} writes it: it would get an earlier run's data",
                        task(read), region(read), task(write));
      } else {
        d.message = fmt::format("{} reads {}, which {} writes without an order between them",
                                task(read), region(read), task(write));
      }
      return d;
    });
  }

  void check_rewrite(uint32_t before, uint32_t after) {
    const bool same_task = accesses_[before].instr == accesses_[after].instr;
    if (!same_task && ordered(before, 0, after, 0)) return;
    findings_.add(DiagnosticKind::unordered_writes, cause(after), [&] {
      Diagnostic d = about(after, before, 0);
      d.message = same_task ? fmt::format("{} writes {} twice", task(after), region(after))
                            : fmt::format(
                                  "{} writes {}, which {} writes without an order between "
                                  "them",
                                  task(after), region(after), task(before));
      if (same_task) d.hint = "the regions that a task writes must not overlap";
      return d;
    });
  }

  // `write` destroys within the run what `read` reads.
  void check_overwrite(uint32_t read, uint32_t write) {
    const bool same_task = accesses_[read].instr == accesses_[write].instr;
    if (same_task ? in_place(read, write) : ordered(read, 0, write, 0)) return;
    report_overwrite(read, write);
  }

  void report_overwrite(uint32_t read, uint32_t write) {
    const bool same_task = accesses_[read].instr == accesses_[write].instr;
    findings_.add(DiagnosticKind::overwrite_unread, cause(write), [&] {
      Diagnostic d = about(write, read, 0);
      d.message =
          same_task ? fmt::format("{} writes {} over what it reads itself, {}", task(write),
                                  region(write), region(read))
                    : fmt::format("{} overwrites {}, which {} reads without an order between them",
                                  task(write), region(write), task(read));
      if (same_task) d.hint = "only collectives may write in place, over exactly what they read";
      return d;
    });
  }

  bool in_place(uint32_t read, uint32_t write) const {
    const InstrRef at = ref(read);
    const Opcode op = plan_.lanes[at.lane].instrs[at.pos].op;
    return op == Opcode::collective && accesses_[read].region == accesses_[write].region;
  }

  // The run that uses this instance next begins by overwriting it with `write`.
  void check_next_run(uint32_t access, uint32_t write) {
    // Runs of one rank do not overlap.
    if (lane(access).rank == lane(write).rank) return;
    const int lag = plan_.buffers[buffer_].copies;
    if (ordered(access, 0, write, lag)) return;
    const bool read = !accesses_[access].is_write;
    findings_.add(read ? DiagnosticKind::overwrite_unread : DiagnosticKind::unordered_writes,
                  cause(write), [&] {
                    Diagnostic d = about(write, access, lag);
                    d.message = fmt::format("{} may write {} while {}, {} earlier, still {} it",
                                            task(write), region(write), task(access),
                                            counted(lag, "run"), read ? "reads" : "writes");
                    return d;
                  });
  }

  // The run must not end on its rank before an output is there.
  void check_delivered(uint32_t write) {
    if (lane(write).rank == rank_) return;
    if (execution_.clocks().precedes(execution_.event(accesses_[write].instr, 0),
                                     execution_.caller(rank_))) {
      return;
    }
    findings_.add(DiagnosticKind::undelivered_output, cause(write), [&] {
      Diagnostic d = about(write);
      d.message = fmt::format("{} writes {}, maybe after the run has ended on rank {}", task(write),
                              region(write), rank_);
      d.hint = fmt::format("a deliver of this region on rank {} should wait for it", rank_);
      return d;
    });
  }

  // The caller reads outputs between two runs of its rank.
  bool check_caller_is_done(uint32_t write) {
    const int lag = plan_.buffers[buffer_].copies;
    if (lane(write).rank == rank_ ||
        execution_.clocks().run_precedes(rank_, 0, execution_.begin(accesses_[write].instr, lag))) {
      return true;
    }
    findings_.add(DiagnosticKind::overwrite_unread, cause(write), [&] {
      Diagnostic d = about(write);
      d.message = fmt::format(
          "{} may write {} while the caller still reads the output of {} before on rank {}",
          task(write), region(write), counted(lag, "run"), rank_);
      d.hint = fmt::format("it should first hear from a task of rank {} in its own run", rank_);
      return d;
    });
    return false;
  }

  void report_never_written(uint32_t read, const Region& place) {
    findings_.add(DiagnosticKind::never_written, cause(read), [&] {
      Diagnostic d = about(read);
      d.message = fmt::format("{} reads {}, but nobody writes {}", task(read), region(read),
                              describe(plan_, place));
      d.hint = "a task must write all of it in the same run";
      return d;
    });
  }

  void report_unwritten(const Region& place) {
    findings_.add(DiagnosticKind::unwritten_output, uint64_t{rank_} << 16 | buffer_, [&] {
      Diagnostic d;
      const auto of_rank = std::find_if(plan_.lanes.begin(), plan_.lanes.end(),
                                        [&](const Lane& l) { return l.rank == rank_; });
      if (of_rank != plan_.lanes.end()) {
        d.where = {static_cast<uint32_t>(of_rank - plan_.lanes.begin()), 0};
      }
      d.message = fmt::format("no task writes {}, part of an output of rank {}",
                              describe(plan_, place), rank_);
      d.hint = "every element of an output must be written in every run";
      return d;
    });
  }

  // Asked again and again for the same two tasks where their regions meet in several places.
  bool ordered(uint32_t before, int before_run, uint32_t after, int after_run) {
    const Asked asked{accesses_[before].instr, accesses_[after].instr, before_run, after_run};
    if (asked == last_asked_) return last_answer_;
    last_asked_ = asked;
    last_answer_ = execution_.clocks().precedes(execution_.event(asked.before, before_run),
                                                execution_.begin(asked.after, after_run));
    if (last_answer_) ++pairs_proved_;
    return last_answer_;
  }

  InstrRef ref(uint32_t access) const { return index_.ref(accesses_[access].instr); }
  const Lane& lane(uint32_t access) const { return plan_.lanes[ref(access).lane]; }
  std::string task(uint32_t access) const { return at(plan_, ref(access)); }
  std::string region(uint32_t access) const { return describe(plan_, accesses_[access].region); }
  // One report for a kind, a lane and a buffer.
  uint64_t cause(uint32_t access) const { return uint64_t{ref(access).lane} << 16 | buffer_; }

  Diagnostic about(uint32_t access) const {
    Diagnostic d;
    const InstrRef at = ref(access);
    d.where = at;
    d.tile = plan_.lanes[at.lane].instrs[at.pos].tile;
    return d;
  }
  // `access` should come after `other` of the run `lag` runs earlier.
  Diagnostic about(uint32_t access, uint32_t other, int lag) const {
    Diagnostic d = about(access);
    d.other = ref(other);
    OrderHint hint = order_hint(plan_, *d.other, *d.where, lag);
    d.signal = std::move(hint.signal);
    d.hint = std::move(hint.hint);
    return d;
  }

  struct Asked {
    uint32_t before = kNone, after = kNone;
    int before_run = 0, after_run = 0;
    bool operator==(const Asked&) const = default;
  };

  const Plan& plan_;
  const InstrIndex& index_;
  const Execution& execution_;
  Findings& findings_;
  uint16_t buffer_ = 0, rank_ = 0;
  std::span<const Access> accesses_;
  std::vector<uint32_t> readers_;
  Asked last_asked_;
  bool last_answer_ = false;
  size_t pairs_proved_ = 0;
};

}  // namespace

size_t check_memory(const Plan& plan, const InstrIndex& index, const Execution& execution,
                    Findings& findings) {
  const std::vector<Access> accesses = find_accesses(plan, index, execution);
  PlaceCheck check(plan, index, execution, findings);
  size_t next = 0;
  for (size_t buffer = 0; buffer < plan.buffers.size(); ++buffer) {
    const BufferRole role = plan.buffers[buffer].role;
    if (role == BufferRole::input) continue;
    for (int rank = 0; rank < plan.ranks() && !findings.full(); ++rank) {
      const size_t first = next;
      while (next < accesses.size() && accesses[next].region.buffer == buffer &&
             accesses[next].region.rank == rank) {
        ++next;
      }
      if (next == first && role != BufferRole::output) continue;
      check.run(static_cast<uint16_t>(buffer), static_cast<uint16_t>(rank),
                std::span(accesses).subspan(first, next - first));
    }
  }
  return check.pairs_proved();
}

}  // namespace stretto::checker

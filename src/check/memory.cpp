#include "check/memory.h"

#include "check/accesses.h"
#include "check/memory_reports.h"
#include "check/place_sweep.h"
#include "check/regions.h"

namespace stretto::checker {
namespace {

// Checks the accesses to one buffer on one rank.
class PlaceCheck {
 public:
  PlaceCheck(const Plan& plan, const InstrIndex& index, const Execution& execution,
             Findings& findings)
      : plan_(plan),
        execution_(execution),
        findings_(findings),
        reports_(plan, index, execution, findings) {}

  void run(uint16_t buffer, uint16_t rank, std::span<const Access> accesses) {
    buffer_ = buffer;
    rank_ = rank;
    accesses_ = accesses;
    const Buffer& declared = plan_.buffers[buffer];
    const bool is_output = declared.role == BufferRole::output;
    PlaceSweep sweep(accesses, is_output ? declared.rows_on(rank) : 0,
                     is_output ? declared.cols_on(rank) : 0);
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
        for (uint32_t reader : readers_) reports_.stale_read(accesses_[reader], accesses_[a]);
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
      for (uint32_t reader : readers_) reports_.never_written(accesses_[reader], place);
      if (is_output && in_bounds(plan_, place)) reports_.unwritten_output(place);
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
      return reports_.overwritten(accesses_[read], accesses_[write]);
    }
    reports_.unordered_read(accesses_[read], accesses_[write]);
  }

  void check_rewrite(uint32_t before, uint32_t after) {
    const bool same_task = accesses_[before].instr == accesses_[after].instr;
    if (!same_task && ordered(before, 0, after, 0)) return;
    reports_.written_twice(accesses_[before], accesses_[after]);
  }

  // `write` destroys within the run what `read` reads.
  void check_overwrite(uint32_t read, uint32_t write) {
    const bool same_task = accesses_[read].instr == accesses_[write].instr;
    if (same_task ? in_place(read, write) : ordered(read, 0, write, 0)) return;
    reports_.overwritten(accesses_[read], accesses_[write]);
  }

  bool in_place(uint32_t read, uint32_t write) const {
    return accesses_[read].op == Opcode::collective &&
           accesses_[read].region == accesses_[write].region;
  }

  // The run that uses this instance next begins by overwriting it with `write`.
  void check_next_run(uint32_t access, uint32_t write) {
    // Runs of one rank do not overlap.
    if (rank_of(access) == rank_of(write)) return;
    const int lag = plan_.buffers[buffer_].copies;
    if (ordered(access, 0, write, lag)) return;
    reports_.overwritten_by_a_later_run(accesses_[access], accesses_[write], lag);
  }

  // The run must not end on its rank before an output is there.
  void check_delivered(uint32_t write) {
    if (rank_of(write) == rank_) return;
    if (execution_.clocks().precedes(end(accesses_[write], 0), execution_.caller(rank_))) {
      return;
    }
    reports_.undelivered(accesses_[write]);
  }

  // The caller reads outputs between two runs of its rank.
  bool check_caller_is_done(uint32_t write) {
    const int lag = plan_.buffers[buffer_].copies;
    if (rank_of(write) == rank_ ||
        execution_.clocks().run_precedes(rank_, 0, begin(accesses_[write], lag))) {
      return true;
    }
    reports_.overwritten_under_the_caller(accesses_[write], lag);
    return false;
  }

  // Asked again and again for the same two tasks where their regions meet in several places.
  bool ordered(uint32_t before, int before_run, uint32_t after, int after_run) {
    const Asked asked{accesses_[before].instr, accesses_[after].instr, before_run, after_run};
    if (asked == last_asked_) return last_answer_;
    last_asked_ = asked;
    last_answer_ = execution_.clocks().precedes(end(accesses_[before], before_run),
                                                begin(accesses_[after], after_run));
    if (last_answer_) ++pairs_proved_;
    return last_answer_;
  }

  uint16_t rank_of(uint32_t access) const { return plan_.lanes[accesses_[access].lane].rank; }

  // When the access's task begins to touch memory in run number `run`, and when it is done.
  Event begin(const Access& access, int run) const {
    return execution_.begin(access.lane, access.instr, access.op, run);
  }
  Event end(const Access& access, int run) const {
    return execution_.event(access.lane, access.instr, run);
  }

  struct Asked {
    uint32_t before = kNone, after = kNone;
    int before_run = 0, after_run = 0;
    bool operator==(const Asked&) const = default;
  };

  const Plan& plan_;
  const Execution& execution_;
  Findings& findings_;
  MemoryReports reports_;
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
  Accesses accesses(plan, index, execution);
  PlaceCheck check(plan, index, execution, findings);
  for (uint16_t buffer = 0; buffer < plan.buffers.size(); ++buffer) {
    const BufferRole role = plan.buffers[buffer].role;
    if (role == BufferRole::input) continue;
    for (uint16_t rank = 0; rank < plan.ranks() && !findings.full(); ++rank) {
      const std::span<const Access> here = accesses.to(buffer, rank);
      if (here.empty() && role != BufferRole::output) continue;
      check.run(buffer, rank, here);
    }
  }
  return check.pairs_proved();
}

}  // namespace stretto::checker

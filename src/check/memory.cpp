#include "check/memory.h"

#include <algorithm>
#include <unordered_map>

#include "check/access_groups.h"
#include "check/accesses.h"
#include "check/memory_reports.h"
#include "check/place_sweep.h"
#include "check/reads_together.h"
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
    const AccessGroups groups(accesses);
    groups_ = &groups;
    together_.clear();
    const Buffer& declared = plan_.buffers[buffer];
    const bool is_output = declared.role == BufferRole::output;
    PlaceSweep sweep(groups, is_output ? declared.rows_on(rank) : 0,
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

  // Reads that follow each other with no write between.
  struct Reads {
    std::span<const uint32_t> all;
    uint32_t group = kNone;  // whose accesses they are, all of them
  };

  // It suffices to look at neighbours in the order of execution: order is transitive.
  void check_place(const Region& place, std::span<const uint32_t> here) {
    first_write_ = last_write_ = previous_write_ = kNone;
    readers_.clear();
    if (follow_each_other(here)) {
      for (const uint32_t group : here) take(groups_->of(group), group);
    } else {
      merged_.clear();
      for (const uint32_t group : here) {
        merged_.insert(merged_.end(), groups_->of(group).begin(), groups_->of(group).end());
      }
      std::sort(merged_.begin(), merged_.end());
      take(merged_, kNone);
    }
    end_place(place);
  }

  // Whether the accesses of each group come after all of the group before it.
  bool follow_each_other(std::span<const uint32_t> groups) const {
    for (size_t i = 1; i < groups.size(); ++i) {
      if (groups_->of(groups[i]).front() < groups_->of(groups[i - 1]).back()) return false;
    }
    return true;
  }

  void take(std::span<const uint32_t> accesses, uint32_t group) {
    if (group != kNone && groups_->only_reads(group)) return take_reads({accesses, group});
    for (size_t i = 0; i < accesses.size(); ++i) {
      if (accesses_[accesses[i]].is_write) {
        take_write(accesses[i]);
      } else {
        take_reads({accesses.subspan(i, 1), kNone});
      }
    }
  }

  void take_reads(const Reads& reads) {
    if (last_write_ != kNone && !are_all_after(reads, last_write_)) {
      for (const uint32_t read : reads.all) check_read(read, last_write_, previous_write_);
    }
    readers_.push_back(reads);
  }

  void take_write(uint32_t write) {
    if (last_write_ == kNone) {
      for_each_reader(
          [&](uint32_t reader) { reports_.stale_read(accesses_[reader], accesses_[write]); });
      first_write_ = write;
    } else {
      check_rewrite(last_write_, write);
      for_each_reader([&](uint32_t reader) { check_overwrite(reader, write); });
    }
    readers_.clear();
    previous_write_ = last_write_;
    last_write_ = write;
  }

  void end_place(const Region& place) {
    const bool is_output = plan_.buffers[buffer_].role == BufferRole::output;
    if (last_write_ == kNone) {
      for_each_reader([&](uint32_t reader) { reports_.never_written(accesses_[reader], place); });
      if (is_output && in_bounds(plan_, place)) reports_.unwritten_output(place);
      return;
    }
    if (is_output) {
      check_delivered(last_write_);
      if (!check_caller_is_done(first_write_)) return;
    }
    check_next_run(last_write_, first_write_);
    for (const Reads& reads : readers_) {
      if (are_all_before_next_run(reads, first_write_)) continue;
      for (const uint32_t read : reads.all) check_next_run(read, first_write_);
    }
  }

  // Of those since the last write.
  template <typename Visit>
  void for_each_reader(const Visit& visit) const {
    for (const Reads& reads : readers_) {
      for (const uint32_t read : reads.all) visit(read);
    }
  }

  // Whether all are known to be at once; else each is asked about.
  bool are_all_after(const Reads& reads, uint32_t write) {
    ReadsTogether* const together = asked_together(reads);
    if (together == nullptr || !together->are_after(end(accesses_[write], 0))) return false;
    count_as_asked(*together, reads, [&](uint32_t read) { return question(write, 0, read, 0); });
    return true;
  }
  bool are_all_before_next_run(const Reads& reads, uint32_t write) {
    ReadsTogether* const together = asked_together(reads);
    if (together == nullptr || !together->rank()) return false;
    if (together->rank() == rank_of(write)) return true;  // runs of one rank do not overlap
    const int lag = plan_.buffers[buffer_].copies;
    if (!together->are_before(begin(accesses_[write], lag))) return false;
    count_as_asked(*together, reads, [&](uint32_t read) { return question(read, 0, write, lag); });
    return true;
  }
  // Null: they are few, or not all of a group.
  ReadsTogether* asked_together(const Reads& reads) {
    constexpr size_t kMany = 8;
    if (reads.group == kNone || reads.all.size() < kMany) return nullptr;
    const auto known = together_.find(reads.group);
    if (known != together_.end()) return &known->second;
    return &together_.try_emplace(reads.group, plan_, execution_, accesses_, reads.all)
                .first->second;
  }
  // As if ordered() had been asked about each read.
  template <typename Question>
  void count_as_asked(const ReadsTogether& together, const Reads& reads, const Question& about) {
    const bool is_known = about(reads.all.front()) == last_asked_;
    pairs_proved_ += together.num_tasks() - (is_known ? 1 : 0);
    last_asked_ = about(reads.all.back());
    last_answer_ = true;
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
    const Asked asked = question(before, before_run, after, after_run);
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
  Asked question(uint32_t before, int before_run, uint32_t after, int after_run) const {
    return {accesses_[before].instr, accesses_[after].instr, before_run, after_run};
  }

  const Plan& plan_;
  const Execution& execution_;
  Findings& findings_;
  MemoryReports reports_;
  uint16_t buffer_ = 0, rank_ = 0;
  std::span<const Access> accesses_;
  const AccessGroups* groups_ = nullptr;
  std::unordered_map<uint32_t, ReadsTogether> together_;                        // by group
  uint32_t first_write_ = kNone, last_write_ = kNone, previous_write_ = kNone;  // of the place
  std::vector<Reads> readers_;    // since the last write
  std::vector<uint32_t> merged_;  // accesses of groups that do not follow each other
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

// What is said of accesses that nothing keeps apart: which tasks, which place, what would order
// them.
#pragma once

#include <string>

#include "check/accesses.h"
#include "check/execution.h"
#include "check/findings.h"
#include "check/instr_index.h"
#include "stretto/plan.h"

namespace stretto::checker {

// One report for a kind, a lane and a buffer.
class MemoryReports {
 public:
  MemoryReports(const Plan& plan, const InstrIndex& index, const Execution& execution,
                Findings& findings)
      : plan_(plan), index_(index), execution_(execution), findings_(findings) {}

  // `write` is the first of this place in the run, and not before `read`.
  void stale_read(const Access& read, const Access& write);
  void unordered_read(const Access& read, const Access& write);
  void written_twice(const Access& before, const Access& after);
  // Within the run, before it is read.
  void overwritten(const Access& read, const Access& write);
  // By the run that is `lag` runs later, while this one still reads or writes.
  void overwritten_by_a_later_run(const Access& access, const Access& write, int lag);
  void overwritten_under_the_caller(const Access& write, int lag);
  void undelivered(const Access& write);
  void never_written(const Access& read, const Region& place);
  void unwritten_output(const Region& place);

 private:
  InstrRef ref(const Access& access) const {
    return {access.lane, access.instr - index_.of(access.lane, 0)};
  }
  std::string task(const Access& access) const;
  std::string region(const Access& access) const;
  uint64_t cause(const Access& access) const;
  Diagnostic about(const Access& access) const;
  // `access` should come after `other` of the run `lag` runs earlier.
  Diagnostic about(const Access& access, const Access& other, int lag) const;

  const Plan& plan_;
  const InstrIndex& index_;
  const Execution& execution_;
  Findings& findings_;
};

}  // namespace stretto::checker

// What has ended when a step of a rank's streams begins: what its stream has before it, and what
// the events tell that it awaits, as one thread enqueues them.
#pragma once

#include <cstdint>
#include <vector>

#include "check/findings.h"
#include "check/program_wording.h"
#include "launch/rank_program.h"
#include "stretto/plan.h"

namespace stretto::checker {

class StreamClocks {
 public:
  // Reports steps that are not enqueued once and in their stream's order, and events that are
  // awaited before they are recorded: those await the run before. With any of it, what has ended is
  // not to be relied on.
  StreamClocks(const Plan& plan, size_t rank, const cuda::RankProgram& program, Findings& findings);

  // How many steps of `stream` have ended, from the first on.
  uint32_t ended(uint32_t stream, StepPlace when) const {
    return stream == when.stream ? when.step : rows_[row_of_[when.stream][when.step] + stream];
  }

 private:
  void follow(const Plan& plan, size_t rank, const cuda::RankProgram& program, Findings& findings);

  size_t num_streams_;
  // By stream and step: where in rows_ its row begins, which has a number for each stream.
  std::vector<std::vector<size_t>> row_of_;
  std::vector<uint32_t> rows_;
};

}  // namespace stretto::checker

// Signals for a plan whose tasks somebody wrote, without waits and notifies.
#pragma once

#include <optional>
#include <string>

#include "stretto/error.h"
#include "stretto/plan.h"

namespace stretto {

// Says what of the plan leaves its order open; `where`: at which instruction, if at one.
class UnorderedPlan : public UsageError {
 public:
  explicit UnorderedPlan(const std::string& message, std::optional<InstrRef> at = {})
      : UsageError(message), where(at) {}
  std::optional<InstrRef> where;
};

// The plan with the signals, waits and notifies that its tasks need, and `fused` where a GPU can
// keep something in registers. Tasks of a lane keep their order. Those of different lanes get
// theirs from the data: a place is written by one lane, and who reads it from another lane does so
// after the last write. A collective in place comes after the other writes and before the other
// reads.
//
// A schedule text that reads as a schedule says how lanes synchronise (`sync=`); otherwise what the
// same tasks wait for shares a counter, and with `gemm library` kernels wait at their boundaries.
//
// Throws UnorderedPlan where the plan has signals already, two lanes write one place, a value is
// overwritten before anyone can read it, another rank's output is written before anything tells of
// that rank's run, or tasks wait for each other in a circle. Reads of what nobody writes, and the
// like, are the checker's to find: a derived plan has them still.
Plan derive_signals(Plan plan);

}  // namespace stretto

// Which of its lane's events in a run is an instruction's.
#pragma once

#include <cstdint>
#include <vector>

#include "check/instr_index.h"
#include "stretto/plan.h"

namespace stretto::checker {

// Not every instruction needs one of its own: a wait takes effect with the next event of its lane,
// and a notify tells what its lane's last event knew. So events are tasks, boundaries, and waits
// that a notify, a boundary, a collective or the end of the run follows. A collective has two: it
// begins when its own rank comes to it, and is done after all ranks have come.
class EventNumbers {
 public:
  EventNumbers(const Plan& plan, const InstrIndex& index);

  // From 1 on; an instruction has taken effect then.
  uint32_t of(uint32_t instr) const { return of_[instr]; }
  uint32_t per_run(uint32_t lane) const { return per_run_[lane]; }

 private:
  std::vector<uint32_t> of_;       // by instruction
  std::vector<uint32_t> per_run_;  // by lane
};

}  // namespace stretto::checker

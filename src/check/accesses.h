// What the tasks of a run touch, sorted by place.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "check/execution.h"
#include "check/instr_index.h"
#include "stretto/plan.h"

namespace stretto::checker {

// A task reads or writes a region.
struct Access {
  Region region;
  uint32_t lane = 0, instr = 0;  // of the task
  Opcode op = Opcode::copy;
  bool is_write = false;
};

// All accesses of run 0 but those of inputs, which tasks only read, and those of empty regions.
// There are many, so of each only where it is found is kept.
class Accesses {
 public:
  // The execution has finished.
  Accesses(const Plan& plan, const InstrIndex& index, const Execution& execution);

  // Those of one buffer on one rank in the order of execution, a task's reads before its writes.
  // Good until the next call. Of one lane's reads of one region that no write of the buffer comes
  // between, there are the first and the last: what is before the first, or behind the last, is so
  // to those between.
  std::span<const Access> to(uint16_t buffer, uint16_t rank);

 private:
  struct LastRead {
    uint32_t series = 0;  // a number for all between two writes
    uint32_t at = 0;      // in found_
    bool is_first = true;
  };
  struct Task {
    uint32_t lane, instr;
    uint32_t first_operand, first_write, end;
    Opcode op;
  };
  struct Touch {
    uint32_t operand, task;
  };

  size_t place(uint16_t buffer, uint16_t rank) const {
    return buffer * static_cast<size_t>(plan_.ranks()) + rank;
  }
  // Calls visit(operand, place) for those that count.
  template <typename Visit>
  void for_each_operand(const Task& task, const Visit& visit) const;
  void drop_reads_between();

  const Plan& plan_;
  std::vector<Task> tasks_;           // in the order of execution
  std::vector<Touch> touches_;        // place by place, in that order
  std::vector<size_t> ends_;          // by place: where its touches end
  std::vector<Access> found_;         // by to()
  std::vector<LastRead> last_reads_;  // by lane
  std::vector<bool> dropped_;         // of found_
  uint32_t series_ = 0;
};

}  // namespace stretto::checker

// What the tasks of a lane compute, in ranges of their rows: reads what their kinds define
// (task_kind.h), and sends on what comes of it.
#pragma once

#include <cstdint>
#include <vector>

#include "emu/bad_ids.h"
#include "emu/faults.h"
#include "emu/in_flight.h"
#include "emu/memory.h"
#include "stretto/plan.h"
#include "tasks/work.h"

namespace stretto::emu {

class Tasks {
 public:
  Tasks(const Plan& plan, Memory& memory, InFlight& in_flight, Faults& faults);

  // False when an operand lies outside its buffer or out of the rank's reach: the task must not
  // run. Reports it.
  bool sound(const Where& where);
  // Rows of the result of a task that is of a kind.
  int64_t rows(const Where& where) const;
  // Computes rows [begin, end) from what memory holds now; the result is in flight afterwards.
  void run(const Where& where, int64_t begin, int64_t end);
  // The largest range that run() should be given at once: bounds the memory of a result.
  int64_t max_rows(const Where& where) const;
  // A deliver: reads and hands on.
  void check_reads(const Where& where);

  // The region's elements as `where` sees them now: in place when the run has written all of them,
  // else (and reported) a copy in `space` with poison. The lane's own writes arrive first.
  tasks::MatrixView read(const Where& where, const Region& region, std::vector<std::byte>& space);

  double flops() const { return flops_; }
  const BadIds& bad_ids() const { return bad_ids_; }
  BadIds& bad_ids() { return bad_ids_; }

 private:
  const Instr& instr(const Where& where) const;
  const TaskKind& kind(const Where& where) const;
  // Fills operands_ with what rows [begin, end) of the result need.
  void read_operands(const Where& where, int64_t begin, int64_t end);

  const Plan& plan_;
  Memory& memory_;
  InFlight& in_flight_;
  Faults& faults_;
  std::vector<tasks::Operand> operands_;
  std::vector<std::vector<std::byte>> spaces_;  // of operands that are not read in place
  tasks::Scratch scratch_;
  double flops_ = 0;
  BadIds bad_ids_;
};

}  // namespace stretto::emu

// One execution of a plan: the lanes of all ranks, moved by the scheduler until every rank has done
// all its runs or nobody can move.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "emu/boundaries.h"
#include "emu/caller.h"
#include "emu/collectives.h"
#include "emu/faults.h"
#include "emu/in_flight.h"
#include "emu/memory.h"
#include "emu/scheduler.h"
#include "emu/signals.h"
#include "emu/tasks.h"
#include "stretto/emulate.h"
#include "stretto/plan.h"

namespace stretto::emu {

class Execution {
 public:
  using MakeCaller = std::function<std::unique_ptr<Caller>(Memory& memory, Faults& faults)>;
  Execution(const Plan& plan, const EmulateOptions& options, const MakeCaller& make_caller);
  EmulateResult run();

 private:
  // What a lane does when it cannot move.
  enum class Blocked : uint8_t { no, signal, boundary, collective, done };
  struct LaneState {
    uint32_t pos = 0;
    Blocked blocked = Blocked::done;  // between runs
    int64_t rows_done = 0;            // of the task at `pos`
  };
  struct RankState {
    int run = -1;             // the current one, or the last one that ended
    uint32_t lanes_left = 0;  // that have not come to their end
    bool running = false, output_unread = false;
  };

  void step_caller(int rank);
  void step_lane(uint32_t lane);
  void wait(uint32_t lane, const Instr& instr);
  void run_task(uint32_t lane);
  void join_boundary(uint32_t lane);
  void join_collective(uint32_t lane);
  // Past the current instruction; ends the lane's run after the last one.
  void advance(uint32_t lane);
  void block(uint32_t lane, Blocked why);
  void unblock_woken();
  void end_run_when_done(int rank);
  void report_progress();
  void report_stuck(EmulateResult& result) const;
  Where where(uint32_t lane) const {
    return {lane, lanes_[lane].pos, ranks_[plan_.lanes[lane].rank].run};
  }

  const Plan& plan_;
  const EmulateOptions& options_;
  Faults faults_;
  Memory memory_;
  Signals signals_;
  Scheduler scheduler_;
  InFlight in_flight_;
  Tasks tasks_;
  Boundaries boundaries_;
  Collectives collectives_;
  std::unique_ptr<Caller> caller_;
  std::vector<LaneState> lanes_;
  std::vector<RankState> ranks_;
  int64_t instrs_done_ = 0, instrs_total_ = 0, next_report_ = 0;
};

}  // namespace stretto::emu

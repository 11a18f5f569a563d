// Plans that lack one notify each: by kind of the lane that makes it, and of those that await it.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "gpu_plans.h"
#include "held_up.h"
#include "launch/rank_program.h"

namespace stretto::runtime {

struct LostNotify {
  const char* name;
  const char *op, *schedule;  // of two ranks
  LaneKind from;              // the first lane of this kind that makes
  const char* signal;         // this notify
  int to;                     // for this rank does not;
  LaneKind waiter;            // there lanes of this kind await it,
  int runs = 1;               // in the last of so many runs
  bool joined = false;        // comm lanes are blocks of the GEMM kernel
  // Some lane of the other rank may be named, which waits for what the waiter holds up: streams
  // await counters that start over with each run, and then what peers do for a run that was given
  // up ends the wait before the host sees it.
  bool names_others = false;
};

inline constexpr LostNotify kLostNotifies[] = {
    // Comm lanes of a kernel of their own wait, and are awaited.
    {"TileForAMover", "gemm-rs m=1024 n=1024 k=512 ranks=2 dtype=bf16",
     "tiles,mover=comm-blocks,comm-sms=8", LaneKind::compute, "part.0", 0, LaneKind::comm},
    {"SlotOfAMover", "gemm-rs m=1024 n=1024 k=512 ranks=2 dtype=bf16",
     "tiles,mover=comm-blocks,comm-sms=8", LaneKind::comm, "slots.0", 1, LaneKind::compute},
    {"AckForAMover", "gemm-rs m=1024 n=1024 k=512 ranks=2 dtype=bf16",
     "tiles,mover=comm-blocks,comm-sms=8,reuse=ack", LaneKind::compute, "ack.0", 1, LaneKind::comm,
     2},
    {"SlotForACommLaneThatAdds", "gemm-ar m=1024 n=1024 k=512 ranks=2 dtype=bf16",
     "tiles,comm-sms=8", LaneKind::compute, "slots.1", 0, LaneKind::comm},
    {"SumOfACommLane", "gemm-ar m=1024 n=1024 k=512 ranks=2 dtype=bf16", "tiles,comm-sms=8",
     LaneKind::comm, "out.4", 1, LaneKind::comm},
    // Those that are blocks of the GEMM kernel.
    {"RowsOfAJoinedMover", "ag-gemm m=1024 n=1024 k=512 ranks=2 dtype=bf16", "tiles,comm-sms=8",
     LaneKind::comm, "ag.0", 1, LaneKind::compute, 1, true},
    {"OwnRowsInPhases", "ag-gemm m=1024 n=1024 k=512 ranks=2 dtype=bf16",
     "tiles,tile=128x128,comm-sms=8,k-phases=4,own=gathered", LaneKind::comm, "ag.0", 0,
     LaneKind::compute, 1, true},
    {"PhaseOfAPeer", "ag-gemm m=1024 n=1024 k=512 ranks=2 dtype=bf16",
     "tiles,tile=128x128,comm-sms=8,k-phases=4,own=gathered", LaneKind::comm, "ag.128", 1,
     LaneKind::compute, 1, true},
    {"AckForAJoinedMover", "ag-gemm m=1024 n=1024 k=512 ranks=2 dtype=bf16",
     "tiles,comm-sms=8,reuse=ack", LaneKind::compute, "ack.0", 0, LaneKind::comm, 2, true},
    // Copy lanes.
    {"TileForACopyEngine", "gemm-rs m=1024 n=1024 k=512 ranks=2 dtype=bf16",
     "tiles,mover=copy-engine,comm-sms=0", LaneKind::compute, "part.0", 0, LaneKind::copy},
    {"AckForACopyEngine", "ag-gemm m=1024 n=1024 k=512 ranks=2 dtype=bf16",
     "tiles,mover=copy-engine,comm-sms=0,reuse=ack", LaneKind::compute, "ack.0", 0, LaneKind::copy,
     2, false, true},
    // Another block's range of K.
    {"RangeOfATile", "gemm-rs m=1024 n=1024 k=512 ranks=2 dtype=bf16",
     "tiles,tile=128x128,split-k=2", LaneKind::compute, "ranges.0", 0, LaneKind::compute},
    // It stands beside a library's products.
    {"ChunkForALibrary", "ag-gemm m=1024 n=1024 k=512 ranks=2 dtype=bf16",
     "decomposed,gemm=library,mover=comm-blocks,comm-sms=8,groups=1+3", LaneKind::comm, "ag.0", 1,
     LaneKind::compute},
    {"ChunkOfALibrary", "gemm-rs m=1024 n=1024 k=512 ranks=2 dtype=bf16",
     "decomposed,gemm=library,mover=comm-blocks,comm-sms=8,groups=1+3", LaneKind::compute, "part.0",
     0, LaneKind::comm},
    {"AckBesideALibrary", "ag-gemm m=1024 n=1024 k=512 ranks=2 dtype=bf16",
     "decomposed,gemm=library,mover=comm-blocks,comm-sms=8,groups=1+3", LaneKind::compute, "ack.0",
     0, LaneKind::comm, 2},
    {"ChunkForALibrarysCopyEngine", "gemm-rs m=1024 n=1024 k=512 ranks=2 dtype=bf16",
     "decomposed,gemm=library,groups=1+3", LaneKind::compute, "part.0", 0, LaneKind::copy},
};

inline void PrintTo(const LostNotify& lost, std::ostream* out) { *out << lost.name; }

inline Plan plan_of(const LostNotify& lost) { return plan_here(lost.op, lost.schedule); }

inline bool is_direct(const Plan& plan, const LostNotify& lost, const StuckWait& wait) {
  return wait.rank == lost.to &&
         describe(plan, plan.lanes[wait.lane].instrs[wait.position].signal) == lost.signal;
}

// What an error may say of a plan without the notify.
inline std::vector<std::string> errors_of(const Plan& plan, const LostNotify& lost,
                                          uint64_t timeout_ns) {
  std::vector<std::string> errors;
  for (const StuckWait& wait : HeldUpRuns(plan, lost.runs).waits()) {
    if (!lost.names_others && !is_direct(plan, lost, wait)) continue;
    errors.push_back(describe(plan, wait, timeout_ns));
  }
  return errors;
}

// Enqueues a rank's runs so that whoever waits for the notify begins to before anybody waits for
// what that holds up: the first wait to expire is the one that is told.
inline void enqueue_runs(PlanRunner& runner, const LostNotify& lost, int rank) {
  constexpr uint64_t kLaterNs = 100'000'000;
  for (int run = 0; run < lost.runs; ++run) {
    if (rank != lost.to) runner.delay(rank, kLaterNs);
    runner.enqueue(rank);
  }
}

}  // namespace stretto::runtime

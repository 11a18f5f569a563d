// Signals on the device: 64-bit counters in symmetric memory that only grow; waits with a deadline.
//
// A signal stands kSignalStride words from the next, on its own 128-byte line. A plan's counter
// with `copies` instances has them kSignalStride * copy_step words apart; run e uses instance e %
// copies.
//
// A wait that expires does not stop the kernel. It records who waited for what, sets the abort word
// of every rank, and passes; from then on every wait of the run passes at once. The run ends with
// useless results and an error, all its notifies made, so counters stay in step across ranks.
//
// A run's number, its epoch, is counted by the blocks themselves. Every block of a plan's kernels
// executes exactly once in each run, also in one that is aborted or has fewer rows, and runs of a
// rank follow one another. So a block that counts its executions counts runs; its word has one
// writer, and the end of a kernel orders it with the next run's read. All words of all ranks are
// set to 0 together with the counters. Nothing has to run between two runs.
#pragma once

#include "stretto/device/poll.h"
#ifdef STRETTO_DEVICE
#include "stretto/device/ptx_memory.h"
#endif

namespace stretto::device {

inline constexpr uint32 kSignalStride = 16;

// Set in WaitError::lane when the waiter was a communication lane, not a compute lane.
inline constexpr uint32 kMoverLane = 1u << 31;

// As WaitError::tile: the wait stands behind all tasks of its block.
inline constexpr uint32 kAtEnd = ~1u;

// What the host reads after a run whose `abort` is set; filled by the first waiter that expired.
struct WaitError {
  uint32 lane, tile, signal;
  uint32 kernel;  // SignalSpace::kernel of the waiter
  uint64 expected, seen;
};

// One per rank, in memory that every rank can write.
struct RunControl {
  uint64 timeout_ns;
  uint32 abort;         // 1: some wait of some rank expired in this run
  uint32 expired_here;  // 1: `error` is filled
  WaitError error;
  uint32* host_word;  // of tell_host()
};

struct WaitEntry {
  uint64 amount;   // of one run; signed where the counter starts over with each run
  uint64 per_run;  // what all notifies of one run add
  uint32 signal;   // of instance 0
  uint32 copy_step;
  uint16 copies;
  uint16 lag;     // runs back
  uint32 before;  // of a GEMM task: the block of its K, from its first on, that needs it
};

struct NotifyEntry {
  uint64 amount;
  uint32 signal;  // of instance 0
  uint32 copy_step;
  uint16 copies;
  uint16 rank;
  uint32 reserved;
};

// A kernel's view of all ranks.
struct SignalSpace {
  RunControl* control;          // this rank's
  uint64* own;                  // this rank's counters
  uint64* const* counters;      // by rank
  RunControl* const* controls;  // by rank
  uint64* runs;                 // by block: how many it has begun; null: every run is the first
  uint32 ranks;
  uint32 kernel;  // tells the rank's kernels apart in errors
};

static_assert(sizeof(WaitEntry) == 32 && sizeof(NotifyEntry) == 24 && sizeof(WaitError) == 32);
static_assert(sizeof(RunControl) == 56 && sizeof(SignalSpace) == 48);

#ifdef STRETTO_DEVICE

// Counters are compared as distances: those that start over with each run may lie below zero.
STRETTO_DEVICE bool has_come(uint64 seen, uint64 expected) {
  return static_cast<int64>(seen - expected) >= 0;
}

// The number of the run that this block is about to begin. By one thread, which then counts it.
STRETTO_DEVICE uint64 read_epoch(const SignalSpace& space, uint32 block) {
  return space.runs == nullptr ? 0 : space.runs[block];
}
STRETTO_DEVICE void count_run(const SignalSpace& space, uint32 block, uint64 epoch) {
  if (space.runs != nullptr) space.runs[block] = epoch + 1;
}
// Where nobody has read the number.
STRETTO_DEVICE void count_one_run(const SignalSpace& space, uint32 block) {
  if (space.runs != nullptr) add_relaxed_sys(space.runs + block, 1);
}

// The same by all threads of a block.
STRETTO_DEVICE uint64 begin_run(const SignalSpace& space) {
  const uint64 epoch = read_epoch(space, blockIdx.x);
  __syncthreads();
  if (threadIdx.x == 0) count_run(space, blockIdx.x, epoch);
  return epoch;
}

struct RunLimits {
  STRETTO_DEVICE const uint32* abort_word() const { return &control->abort; }
  STRETTO_DEVICE uint32* host_word() const { return control->host_word; }
  STRETTO_DEVICE uint64 timeout_ns() const { return control->timeout_ns + grace_ns; }
  const RunControl* control;
  uint64 grace_ns;
};

STRETTO_DEVICE void report_expired_wait(const SignalSpace& space, const WaitError& error) {
  report_first(
      &space.control->expired_here, [&] { space.control->error = error; }, space.ranks,
      [&](uint32 rank) { return &space.controls[rank]->abort; }, space.control->host_word);
}

// Returns once the counter has come, the run is aborted, or the deadline has passed: 0, or what the
// counter lacks. Acquires: what the notifiers' lanes did before is visible to this thread's
// ordinary accesses.
STRETTO_DEVICE uint64 wait_signal(const SignalSpace& space, uint64 epoch, const WaitEntry& entry,
                                  uint32 lane, uint32 tile) {
  if (epoch < entry.lag) return 0;
  const uint64 run = epoch - entry.lag;
  const uint64 copy = run % entry.copies;
  const uint32 signal = entry.signal + static_cast<uint32>(copy) * entry.copy_step;
  const uint64* counter = space.own + static_cast<uint64>(signal) * kSignalStride;
  const uint64 expected = (run / entry.copies) * entry.per_run + entry.amount;
  uint64 seen = 0;
  const bool has_passed = poll_until(
      // Behind all tasks it may have begun before a wait that holds up another block.
      RunLimits{space.control, tile == kAtEnd ? kGraceNs : 0},
      [&] {
        seen = load_relaxed_sys(counter);
        return has_come(seen, expected);
      },
      [&] {
        report_expired_wait(space, {lane, tile, signal, space.kernel, expected, seen});
      });
  acquire_sys(counter);
  return has_passed ? 0 : expected - seen;
}

// All of a task's waits, by one warp: a lane each, so that they cost one round trip. Data that TMA
// will read needs fence_proxy_async() besides, by the thread that issues the load.
STRETTO_DEVICE void wait_signals(const SignalSpace& space, uint64 epoch, const WaitEntry* entries,
                                 uint32 count, uint32 lane, uint32 tile) {
  for (uint32 i = threadIdx.x % 32; i < count; i += 32) {
    wait_signal(space, epoch, entries[i], lane, tile);
  }
  __syncwarp();
}

// One of several notifies behind one fence. A release waits until all that its SM has under way has
// arrived, other warps' accesses too: 0.6 us, and 3 to 8 beside a busy link or a busy GEMM
// (docs/notes/latency.md), so there is one for as many as can be.
STRETTO_DEVICE void notify_behind_fence(const SignalSpace& space, uint64 epoch,
                                        const NotifyEntry& entry) {
  const uint64 copy = epoch % entry.copies;
  const uint32 signal = entry.signal + static_cast<uint32>(copy) * entry.copy_step;
  add_relaxed_sys(space.counters[entry.rank] + static_cast<uint64>(signal) * kSignalStride,
                  entry.amount);
}

// Releases what this thread did and has observed, then adds to the counters.
STRETTO_DEVICE void notify_signals(const SignalSpace& space, uint64 epoch,
                                   const NotifyEntry* entries, uint32 count) {
  if (count == 0) return;
  const NotifyEntry first = entries[0];  // the fence empties the SM's cache
  fence_acq_rel_sys();
  notify_behind_fence(space, epoch, first);
  for (uint32 i = 1; i < count; ++i) notify_behind_fence(space, epoch, entries[i]);
}

#endif  // STRETTO_DEVICE

}  // namespace stretto::device

// Notifies that a copy engine makes itself: behind the data, on the same stream, it copies the
// value that the counter then has from a word of its GPU. A kernel between two copies would cost
// their stream two changes of engine, and need a place on an SM beside a GEMM that fills them all.
// A stream's copies follow one another, the data has arrived before the word is sent, and a poll
// sees the word whole: its eight bytes lie in one sector of memory.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "launch/signal_layout.h"
#include "stretto/device/stream_sync.h"
#include "tables/transfers.h"

namespace stretto::cuda {

// A notify of a copy lane whose counter no other lane adds to, so that the sum is known to it.
struct CopiedNotify {
  uint16_t rank = 0;    // whose counter
  uint16_t copies = 1;  // instances; run e counts on instance e % copies
  uint32_t signal = 0;  // of instance 0
  uint32_t copy_step = 0;
  uint64_t value = 0;  // the counter's after it, in the first run of an instance
  uint64_t per_run = 0;

  bool same_counter(const CopiedNotify& other) const {
    return rank == other.rank && signal == other.signal;
  }
};

class CopiedNotifies {
 public:
  // Not counters that start over with each run: their owner takes off what a run adds, and who
  // overwrites them cannot tell whether it has. Not instances that the host cannot tell apart.
  CopiedNotifies(const Plan& plan, const SignalLayout& signals);

  // Null: a kernel makes the notify at `position` of plan.lanes[lane].
  const CopiedNotify* of(uint32_t lane, uint32_t position) const;

 private:
  std::map<std::pair<uint32_t, uint32_t>, CopiedNotify> all_;  // by lane and position
};

// Those that follow one another in a stream, without what a later one overwrites anyway.
std::vector<CopiedNotify> last_of_each_counter(std::span<const CopiedNotify> notifies);

// Notify i copies the word at words + 8 * i; `counters` by rank, as the copying rank sees them, in
// a run on instance set `set`. Counters at equal distances are written by one transfer.
std::vector<Transfer> transfers_of(std::span<const CopiedNotify> notifies, DevicePtr words,
                                   std::span<const DevicePtr> counters, int set);

}  // namespace stretto::cuda

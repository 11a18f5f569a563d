// How a thread waits for another GPU, wherever it does: a poll with a deadline, which ends too when
// some other wait of the run has failed, and backs off when it takes long.
#pragma once

#include "stretto/device/types.h"
#ifdef STRETTO_DEVICE
#include "stretto/device/ptx_memory.h"
#endif

namespace stretto::device {

enum class Polled : uint8 { kCame, kAborted, kExpired };

#ifdef STRETTO_DEVICE

// `ready` is asked until it holds; it orders nothing, so an acquire follows where one is needed.
// `limits` has abort_word(), not zero once a wait has failed, and timeout_ns(); both are looked at
// only when a wait is long.
template <class Limits, class Ready>
STRETTO_DEVICE Polled poll_until(const Limits& limits, Ready ready) {
  if (ready()) return Polled::kCame;
  uint64 start_ns = 0;
  for (uint32 spins = 1; !ready(); ++spins) {
    if (spins % 64 != 0) continue;
    if (load_relaxed_sys(limits.abort_word()) != 0) return Polled::kAborted;
    const uint64 now_ns = global_time_ns();
    if (start_ns == 0) start_ns = now_ns;
    if (now_ns - start_ns > limits.timeout_ns()) return Polled::kExpired;
    if (now_ns - start_ns > 20'000) sleep_ns(200);
  }
  return Polled::kCame;
}

// The first error of a rank is kept, by write_record(); the waits of all ranks end.
template <class WriteRecord, class AbortOf>
STRETTO_DEVICE void report_first(uint32* filled, WriteRecord write_record, uint32 ranks,
                                 AbortOf abort_of) {
  if (exchange_relaxed_sys(filled, 1) == 0) write_record();
  for (uint32 rank = 0; rank < ranks; ++rank) store_relaxed_sys(abort_of(rank), 1);
}

#endif  // STRETTO_DEVICE

}  // namespace stretto::device

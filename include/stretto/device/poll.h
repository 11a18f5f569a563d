// How a thread waits for another GPU, wherever it does: a poll with a deadline, which ends too when
// some other wait of the run has failed, and backs off when it takes long.
#pragma once

#include "stretto/device/types.h"
#ifdef STRETTO_DEVICE
#include "stretto/device/ptx_memory.h"
#endif

namespace stretto::device {

// What a wait that may only be the consequence of another one is given on top, so that the other
// one expires first and is reported: longer than any tile takes, and than blocks start apart.
inline constexpr uint64 kGraceNs = 2'000'000;

#ifdef STRETTO_DEVICE

// A word of the host's memory that says that a wait of this rank has failed, whosever it was; null
// where nobody looks. What was written before is there when the host sees it.
STRETTO_DEVICE void tell_host(uint32* word) {
  if (word == nullptr) return;
  fence_acq_rel_sys();
  store_relaxed_sys(word, 1);
}

// `ready` is asked until it holds; it orders nothing, so an acquire follows where one is needed.
// `limits` has abort_word(), not zero once a wait has failed, host_word(), of tell_host(), and
// timeout_ns(); they are looked at only when a wait is long. False when a wait has failed: this
// one, after on_expired(), or another.
template <class Limits, class Ready, class OnExpired>
STRETTO_DEVICE bool poll_until(const Limits& limits, Ready ready, OnExpired on_expired) {
  if (ready()) return true;
  uint32 spins = 0;
  uint64 start_ns = 0;
  do {
    if (++spins % 64 != 0) continue;
    if (load_relaxed_sys(limits.abort_word()) != 0) {
      tell_host(limits.host_word());
      return false;
    }
    if (start_ns == 0) start_ns = global_time_ns();
    // Signed: a clock that is set back has waited for less than nothing, not for centuries.
    const auto waited_ns = static_cast<int64>(global_time_ns() - start_ns);
    if (waited_ns > static_cast<int64>(limits.timeout_ns())) {
      on_expired();
      return false;
    }
    if (waited_ns > 20'000) sleep_ns(200);
  } while (!ready());
  return true;
}

// The first error of a rank is kept, by write_record(); the waits of all ranks end.
template <class WriteRecord, class AbortOf>
STRETTO_DEVICE void report_first(uint32* filled, WriteRecord write_record, uint32 ranks,
                                 AbortOf abort_of, uint32* host_word) {
  if (exchange_relaxed_sys(filled, 1) == 0) write_record();
  for (uint32 rank = 0; rank < ranks; ++rank) store_relaxed_sys(abort_of(rank), 1);
  tell_host(host_word);
}

#endif  // STRETTO_DEVICE

}  // namespace stretto::device

// What a rank's streams run between kernels, copies and collectives: waits and notifies that belong
// to no block of a kernel, and the end of a run whose streams await counters or copy words.
#pragma once

#include "stretto/device/launch_order.h"
#include "stretto/device/signal.h"

namespace stretto::device {

// A stream's wait that ended because another one's deadline passed, or its own. It tells of itself,
// since the one that expired first may only be what follows from it.
struct LetGo {
  uint64 missing;  // what the counter lacked; 0: the wait was not let go
  uint64 run;
};

// A wait that is let go tells of itself when it has stood still for this part of the deadline: one
// that had just begun might have passed.
inline constexpr uint64 kStoodStill = 8;

struct StreamWaitParams {
  SignalSpace signals;
  const WaitEntry* waits;
  LetGo* let_go;  // by wait
  uint32 num_waits, reserved;
};

struct StreamNotifyParams {
  SignalSpace signals;
  const NotifyEntry* notifies;
  uint32 num_notifies, reserved;
};

// A counter that a stream itself awaits (cuStreamWaitValue64). Its threshold is baked into captured
// graphs, so the counter is made to count from the present run: each run ends by taking off what a
// run adds. Notifies of peers that are ahead stay.
struct RelativeCounter {
  uint32 signal, reserved;
  uint64 per_run;
};

// A word of this rank whose value copy engines copy into a peer's counter: what the counter has
// after that notify, in the run to come.
struct CopiedWord {
  uint64 per_run;  // what the runs of one instance of the counter add
  uint32 copies, reserved;
};

struct AdvanceParams {
  SignalSpace signals;
  const RelativeCounter* relative;
  const CopiedWord* copied;
  uint64* words;  // one of each of `copied`
  uint32 num_relative, num_copied;
};

// Runs `expected_set` of `sets` is about to begin; see kWrongSet.
struct CheckSetParams {
  SignalSpace signals;
  uint32 expected_set, sets;
};

// As WaitError::signal: no wait expired, but a copy engine was about to work on the wrong instance
// of a buffer. Its addresses are the host's, so runs must alternate as the host counted them.
inline constexpr uint32 kWrongSet = 0xffffffffu;

static_assert(sizeof(StreamWaitParams) == 72 && sizeof(LetGo) == 16 &&
              sizeof(StreamNotifyParams) == 64 && sizeof(AdvanceParams) == 80 &&
              sizeof(CheckSetParams) == 56 && sizeof(CopiedWord) == 16);

#ifdef STRETTO_DEVICE

// One block of any size. The next kernel is not started while it waits: it would take the room of
// others that what is awaited may hang on.
STRETTO_DEVICE void await_in_stream(const StreamWaitParams& params) {
  wait_for_kernel_before();
  const uint64 epoch = begin_run(params.signals);
  for (uint32 i = threadIdx.x; i < params.num_waits; i += blockDim.x) {
    const uint64 start_ns = global_time_ns();
    const uint64 missing = wait_signal(params.signals, epoch, params.waits[i], 0, ~0u);
    if (missing == 0 || params.let_go[i].missing != 0) continue;
    const auto waited_ns = static_cast<int64>(global_time_ns() - start_ns);
    const uint64 least_ns = params.signals.control->timeout_ns / kStoodStill;
    if (waited_ns >= static_cast<int64>(least_ns)) params.let_go[i] = {missing, epoch};
  }
  let_next_start();
}

// One warp. What the stream did before is visible to every thread of a kernel, so each may release.
STRETTO_DEVICE void notify_in_stream(const StreamNotifyParams& params) {
  wait_for_stream();
  const uint64 epoch = begin_run(params.signals);
  fence_acq_rel_sys();
  for (uint32 i = threadIdx.x; i < params.num_notifies; i += 32) {
    notify_behind_fence(params.signals, epoch, params.notifies[i]);
  }
}

// Makes relative counters and copied words those of the next run. One block, after all lanes of the
// run.
STRETTO_DEVICE void advance_run(const AdvanceParams& params) {
  const uint64 next = begin_run(params.signals) + 1;
  for (uint32 i = threadIdx.x; i < params.num_relative; i += blockDim.x) {
    const RelativeCounter& counter = params.relative[i];
    add_release_sys(params.signals.own + static_cast<uint64>(counter.signal) * kSignalStride,
                    0 - counter.per_run);
  }
  for (uint32 i = threadIdx.x; i < params.num_copied; i += blockDim.x) {
    const CopiedWord& word = params.copied[i];
    if (next % word.copies == 0) params.words[i] += word.per_run;
  }
}

// One thread.
STRETTO_DEVICE void check_set(const CheckSetParams& params) {
  const uint64 set = begin_run(params.signals) % params.sets;
  if (set != params.expected_set) {
    report_expired_wait(params.signals,
                        {0, ~0u, kWrongSet, params.signals.kernel, params.expected_set, set});
  }
}

// One thread: holds the stream up, as a slow rank would be.
STRETTO_DEVICE void delay(uint64 duration_ns) {
  const uint64 start_ns = global_time_ns();
  while (global_time_ns() - start_ns < duration_ns) sleep_ns(1000);
}

#endif  // STRETTO_DEVICE

}  // namespace stretto::device

#include "run/run_watch.h"

#include <algorithm>

namespace stretto::runtime {
namespace {

// Where runs are not counted, no progress is seen before the last has ended.
constexpr int kUncounted = 30;
// What copies of later runs write may shut a stream's wait again, so it may take several. Where no
// stream waits a late rank is given as long to come after all; but where others wait to be told of
// it, and it is seen that nothing begins, no longer than they wait.
constexpr int kMostReleases = 10, kFewReleases = 3;

}  // namespace

bool RunWatch::is_late(Time now, const Seen& seen,
                       const std::function<bool()>& streams_wait) const {
  Duration limit = timeout_;
  Time since = since_;
  if (releases_ == 0 && !seen.is_counted) {
    // A collective ends on all ranks about together, so a rank that has ended has joined all there
    // were for it, and one that goes on waits for what will not come.
    if (kinds_.in_nccl && seen.some_ended) {
      since = std::max(since, none_ended_at_);
    } else {
      limit *= kUncounted;
    }
  }
  if (now - since <= limit + kLook) return false;
  // A kernel's waits may have begun long after it, and their deadlines say who waited: they get as
  // long again where no stream waits.
  const bool for_kernels = releases_ == 0 && kinds_.in_kernels;
  return !for_kernels || now - since > 2 * limit + kLook || streams_wait();
}

RunWatch::Verdict RunWatch::look(Time now, const Seen& seen,
                                 const std::function<bool()>& streams_wait) {
  if (seen.begun != begun_) {
    begun_ = seen.begun;
    since_ = now;
  }
  if (!seen.some_ended) none_ended_at_ = now;
  const bool is_new_failure = releases_ == 0 && seen.is_aborted;
  if (!is_new_failure && !is_late(now, seen, streams_wait)) return Verdict::wait;
  const bool few = others_wait_ && !kinds_.in_streams && seen.is_counted;
  if (releases_ == (few ? kFewReleases : kMostReleases)) return Verdict::give_up;
  ++releases_;
  since_ = now;
  return Verdict::release;
}

}  // namespace stretto::runtime

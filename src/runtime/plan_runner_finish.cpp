// The end of a runner's runs: the deadline of waits in streams, and which wait held up a run.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "runtime/plan_runner.h"
#include "stretto/error.h"

namespace stretto::runtime {

using cuda::check;
using cuda::driver;
using device::RunControl;
using Clock = std::chrono::steady_clock;

bool PlanRunner::idle() const {
  for (int rank = fabric_.first_rank(); rank < last_rank(); ++rank) {
    fabric_.device(rank).make_current();
    if (!cuda::Stream(of(rank).used).idle()) return false;
  }
  return true;
}

std::vector<uint64_t> PlanRunner::runs_begun() const {
  std::vector<uint64_t> all;
  for (int rank = fabric_.first_rank(); rank < last_rank(); ++rank) {
    fabric_.device(rank).make_current();
    const std::vector<uint64_t> begun = of(rank).streams->runs_begun();
    all.insert(all.end(), begun.begin(), begun.end());
  }
  return all;
}

bool PlanRunner::aborted() const {
  for (int rank = fabric_.first_rank(); rank < last_rank(); ++rank) {
    fabric_.device(rank).make_current();
    uint32_t abort = 0;
    cuda::copy_from_gpu(&abort, state_.control(rank) + offsetof(RunControl, abort), sizeof(abort));
    if (abort != 0) return true;
  }
  return false;
}

bool PlanRunner::streams_wait() const {
  for (int rank = fabric_.first_rank(); rank < last_rank(); ++rank) {
    fabric_.device(rank).make_current();
    if (!of(rank).streams->stuck_stream_waits().empty()) return true;
  }
  return false;
}

// A stream's own wait has no deadline, so the host keeps it: when no kernel has begun for as
// long as a wait may take, or when a kernel has given up. Where no stream waits, kernels get as
// long again.
void PlanRunner::wait_for_streams() {
  // Where runs are not counted, no progress is seen before the last has ended.
  const bool counted = std::all_of(ranks_.begin(), ranks_.end(),
                                   [](const Rank& r) { return r.streams->counts_runs(); });
  constexpr uint64_t kUncounted = 30;
  auto timeout = std::chrono::nanoseconds(options_.timeout_ns * (counted ? 1 : kUncounted));
  constexpr auto kLook = std::chrono::milliseconds(20);
  auto since = Clock::now(), next_look = since + kLook;
  std::vector<uint64_t> last_begun;
  int releases = 0;
  while (!idle()) {
    const auto now = Clock::now();
    if (now < next_look) {
      if (now - since > std::chrono::milliseconds(1)) {
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      }
      continue;
    }
    next_look = now + kLook;
    std::vector<uint64_t> now_begun = runs_begun();
    if (now_begun != last_begun) {
      last_begun = std::move(now_begun);
      since = now;
    }
    bool late = now - since > timeout + kLook;
    // A kernel's waits may have begun long after it, and have deadlines that say who waited.
    if (late && releases == 0 && now - since - timeout <= timeout + kLook) late = streams_wait();
    if (!late && !(releases == 0 && aborted())) continue;
    if (releases++ == 10) throw SystemError("a GPU does not come to the end of a run");
    release();
    since = now;
    timeout = std::chrono::nanoseconds(options_.timeout_ns);  // what was late is let go now
  }
}

void PlanRunner::release() {
  for (int rank = fabric_.first_rank(); rank < last_rank(); ++rank) {
    fabric_.device(rank).make_current();
    const auto found = of(rank).streams->stuck_stream_waits();
    stuck_.insert(stuck_.end(), found.begin(), found.end());
  }
  for (int rank = fabric_.first_rank(); rank < last_rank(); ++rank) {
    fabric_.device(rank).make_current();
    const uint32_t abort = 1;
    cuda::copy_to_gpu(state_.control(rank) + offsetof(RunControl, abort), &abort, sizeof(abort));
    of(rank).streams->release_stream_waits();
  }
}

// Only a rank's own process can tell which instruction it waits in.
std::vector<StuckWait> PlanRunner::of_all_processes(const std::vector<StuckWait>& mine) {
  if (fabric_.group().size() == 1) return mine;
  static_assert(std::is_trivially_copyable_v<StuckWait>);
  const size_t most = fabric::kMaxMessageBytes / sizeof(StuckWait);
  const std::string_view bytes(reinterpret_cast<const char*>(mine.data()),
                               std::min(mine.size(), most) * sizeof(StuckWait));
  std::vector<StuckWait> all;
  for (const std::string& theirs : fabric_.group().all_gather("the waits of a run", bytes)) {
    for (size_t at = 0; at + sizeof(StuckWait) <= theirs.size(); at += sizeof(StuckWait)) {
      StuckWait stuck;
      std::memcpy(&stuck, theirs.data() + at, sizeof(stuck));
      const bool exists =
          stuck.lane < plan_.lanes.size() && stuck.position < plan_.lanes[stuck.lane].instrs.size();
      if (exists) all.push_back(stuck);
    }
  }
  return all;
}

void PlanRunner::finish() {
  stuck_.clear();
  wait_for_streams();
  // The caller may end its streams now.
  for (Rank& rank : ranks_) rank.used = rank.main->handle();
  const fabric::RunOutcome outcome = state_.collect();
  const std::string collectives = low_latency_ ? low_latency_->take_problem() : "";
  if (!outcome.aborted && collectives.empty()) return;
  std::vector<StuckWait> stuck = std::move(stuck_);
  std::string problem;
  for (const fabric::ExpiredWait& expired : outcome.expired) {
    if (expired.error.signal == device::kWrongSet) {
      problem = fmt::format(
          "rank {}: buffers alternate between {} copies, but copy engines take their addresses "
          "from the host: capture a multiple of {} runs in a graph, or lower with reuse=ack",
          expired.rank, cuda::num_sets(plan_), cuda::num_sets(plan_));
    } else if (fabric_.is_local(expired.rank)) {
      stuck.push_back(of(expired.rank).streams->locate(expired.error));
    }
  }
  stuck = of_all_processes(stuck);
  state_.reset();
  for (int rank = fabric_.first_rank(); rank < last_rank(); ++rank) {
    fabric_.device(rank).make_current();
    of(rank).streams->restart();
  }
  if (problem.empty() && stuck.empty()) problem = collectives;
  if (problem.empty() && stuck.empty()) problem = "a run was aborted, and no rank says why";
  if (problem.empty()) problem = describe(plan_, root_of(plan_, stuck), options_.timeout_ns);
  throw SystemError(problem);
}

}  // namespace stretto::runtime

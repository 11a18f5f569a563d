// How a runner waits for the end of its runs, and lets go what does not end.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "run/plan_runner.h"
#include "stretto/error.h"

namespace stretto::runtime {

using Clock = std::chrono::steady_clock;

bool PlanRunner::idle(const Rank& rank) const {
  fabric_.device(fabric_.first_rank() + static_cast<int>(&rank - ranks_.data())).make_current();
  return cuda::Stream(rank.used).idle();
}

bool PlanRunner::aborted() const {
  return state_.is_aborted() || (low_latency_ && low_latency_->is_aborted());
}

bool PlanRunner::streams_wait() const {
  for (int rank = fabric_.first_rank(); rank < last_rank(); ++rank) {
    fabric_.device(rank).make_current();
    if (!of(rank).streams->signals().stuck().empty()) return true;
  }
  return false;
}

RunWatch::Seen PlanRunner::look(const std::vector<bool>& ended) const {
  RunWatch::Seen seen;
  for (int rank = fabric_.first_rank(); rank < last_rank(); ++rank) {
    fabric_.device(rank).make_current();
    const std::vector<uint64_t> begun = of(rank).streams->runs_begun();
    seen.begun.insert(seen.begun.end(), begun.begin(), begun.end());
    seen.is_counted = seen.is_counted && of(rank).streams->counts_runs();
  }
  seen.is_aborted = aborted();
  seen.some_ended = std::find(ended.begin(), ended.end(), true) != ended.end();
  if (nccl_ != nullptr && fabric_.group().size() > 1) {
    for (const uint64_t end : state_.ends()) seen.some_ended = seen.some_ended || end >= finishes_;
  }
  return seen;
}

std::vector<RankStand> PlanRunner::stands(const std::vector<bool>& ended) const {
  std::vector<RankStand> stands;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    fabric_.device(fabric_.first_rank() + static_cast<int>(i)).make_current();
    const std::vector<uint64_t> begun = ranks_[i].streams->runs_begun();
    stands.push_back({begun.empty() ? 0 : *std::max_element(begun.begin(), begun.end()),
                      static_cast<uint8_t>(ended[i] ? 1 : 0)});
  }
  return stands;
}

// A stream's own wait has no deadline, and a collective of NCCL has none, so the host keeps them
// (run_watch.h).
void PlanRunner::wait_for_runs(RunEnd& end) {
  const bool kernels_wait =
      low_latency_ || std::any_of(ranks_.begin(), ranks_.end(),
                                  [](const Rank& r) { return r.streams->kernels_count(); });
  const bool streams_can_wait = std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& r) {
    return r.streams->signals().has_stream_waits();
  });
  const auto start = Clock::now();
  auto next_look = start + RunWatch::kLook;
  RunWatch watch({streams_can_wait, kernels_wait, nccl_ != nullptr},
                 std::chrono::nanoseconds(options_.timeout_ns), fabric_.group().size() > 1, start);
  std::vector<bool> ended(ranks_.size()), told(ranks_.size());
  // To processes that may wait for these ranks in a collective.
  const auto tell_ends = [&] {
    for (size_t i = 0; i < ranks_.size(); ++i) {
      if (!ended[i] || told[i] || nccl_ == nullptr || fabric_.group().size() == 1) continue;
      state_.tell_end(fabric_.first_rank() + static_cast<int>(i), finishes_);
      told[i] = true;
    }
  };
  for (;;) {
    for (size_t i = 0; i < ranks_.size(); ++i) ended[i] = ended[i] || idle(ranks_[i]);
    tell_ends();
    if (std::find(ended.begin(), ended.end(), false) == ended.end()) break;
    const auto now = Clock::now();
    if (now < next_look) {
      if (now - start > std::chrono::milliseconds(1)) {
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      }
      continue;
    }
    next_look = now + RunWatch::kLook;
    const RunWatch::Verdict verdict =
        watch.look(now, look(ended), [this] { return streams_wait(); });
    if (verdict == RunWatch::Verdict::wait) continue;
    if (verdict == RunWatch::Verdict::give_up) {
      const auto stuck = std::find(ended.begin(), ended.end(), false) - ended.begin();
      throw SystemError(fmt::format(
          "rank {} does not come to the end of its runs, though all their waits were let go: what "
          "else is on its stream, or its GPU, keeps them",
          fabric_.first_rank() + stuck));
    }
    if (end.stands.empty()) end.stands = stands(ended);
    release();
    if (!watch.releases_nccl()) continue;
    nccl_->abort();
    end.released_nccl = true;
  }
}

// Another rank may have let this one go already: then its run goes on, and at its end counters go
// back to where they were. What is stuck stays as it is, and its stream does not end.
void PlanRunner::note_stuck_streams() {
  constexpr std::chrono::milliseconds kStill(2);
  using Waits = std::vector<StuckWait>;
  const auto waits_of = [&](const Rank& rank) {
    fabric_.device(fabric_.first_rank() + static_cast<int>(&rank - ranks_.data())).make_current();
    return rank.streams->signals().stuck();
  };
  std::vector<Waits> before;
  for (const Rank& rank : ranks_) before.push_back(waits_of(rank));
  if (std::all_of(before.begin(), before.end(), [](const Waits& w) { return w.empty(); })) return;
  std::this_thread::sleep_for(kStill);
  for (size_t i = 0; i < ranks_.size(); ++i) {
    const Waits now = before[i].empty() ? Waits() : waits_of(ranks_[i]);
    if (now.empty() || idle(ranks_[i])) continue;
    for (const StuckWait& stuck : now) {
      if (std::find(before[i].begin(), before[i].end(), stuck) != before[i].end()) {
        stuck_.push_back(stuck);
      }
    }
  }
}

void PlanRunner::release() {
  note_stuck_streams();
  state_.abort();
  for (int rank = fabric_.first_rank(); rank < last_rank(); ++rank) {
    fabric_.device(rank).make_current();
    of(rank).streams->signals().release();
  }
}

}  // namespace stretto::runtime

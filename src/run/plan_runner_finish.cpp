// The end of a runner's runs, for all processes: which wait or rank held them up.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/ranks_text.h"
#include "run/plan_runner.h"
#include "stretto/error.h"

namespace stretto::runtime {

// The waits of this process's ranks that were let go.
std::vector<StuckWait> PlanRunner::own_let_go() const {
  std::vector<StuckWait> all;
  for (int rank = fabric_.first_rank(); rank < last_rank(); ++rank) {
    fabric_.device(rank).make_current();
    const std::vector<StuckWait> of_rank = of(rank).streams->signals().let_go();
    all.insert(all.end(), of_rank.begin(), of_rank.end());
  }
  return all;
}

// What this process alone can say of runs that failed.
std::optional<RunFault> PlanRunner::own_problem(const RunEnd& mine) const {
  std::vector<StuckWait> stuck = stuck_;
  for (const fabric::ExpiredWait& expired : state_.own_expired()) {
    if (expired.error.signal == device::kWrongSet) continue;
    fabric_.device(expired.rank).make_current();
    stuck.push_back(of(expired.rank).streams->locate(expired.error));
  }
  add_let_go(stuck, own_let_go());
  drop_let_go_alone(stuck);
  if (!stuck.empty()) return fault_of(plan_, stuck, options_.timeout_ns);
  if (low_latency_) {
    const std::string problem = low_latency_->own_problem();
    if (!problem.empty()) return RunFault(problem);
  }
  if (!mine.released_nccl) return std::nullopt;
  return RunFault(fmt::format("{} waited {} ms in a collective of NCCL that did not end",
                              ranks_text(fabric_.first_rank(), 1, fabric_.num_local()),
                              options_.timeout_ns / 1'000'000));
}

// Each rank that has choices has those of all tokens, so one speaks for all; what ranks look up is
// in tables of their own.
uint64_t PlanRunner::bad_ids() const {
  const bool looks_up = std::any_of(
      plan_.op.segments.begin(), plan_.op.segments.end(),
      [](const OperatorSegment& one) { return one.product && one.product->looks_up(); });
  uint64_t all = 0;
  for (int rank = fabric_.first_rank(); rank < last_rank(); ++rank) {
    fabric_.device(rank).make_current();
    all += ranks_[static_cast<size_t>(rank - fabric_.first_rank())].streams->bad_ids();
    if (!looks_up) break;
  }
  return all;
}

bool PlanRunner::is_told() const {
  return state_.is_told() || (low_latency_ && low_latency_->is_told());
}

std::string PlanRunner::problem() const {
  if (!is_told()) return "";
  const std::optional<RunFault> own = own_problem({});
  return own ? own->what()
             : "another rank's run did not end in time, and it let all others go: finish() says "
               "why";
}

// What all processes say of their runs' ends. Whoever knows that runs failed waits no longer for
// the others than these can take to find out, and may not come to at all.
std::vector<RunEnd> PlanRunner::meet(const RunEnd& mine, bool has_failed) {
  const double patience_s = has_failed ? fabric::patience_after_failure(options_.timeout_ns) : 0;
  std::vector<RunEnd> ends;
  std::vector<std::string> all;
  try {
    all = fabric_.group().all_gather("the end of a run", to_bytes(mine), patience_s);
  } catch (const SystemError& error) {
    std::optional<RunFault> own;
    if (!mine.failure.empty()) {
      own.emplace(mine.failure);
    } else if (has_failed) {
      own = own_problem(mine);
    }
    if (!own) throw;
    throw RunFault(fmt::format("{}; {}", error.what(), own->what()), own->where());
  }
  for (const std::string& bytes : all) {
    std::optional<RunEnd> end = run_end_from(bytes, ranks_.size());
    if (!end) throw SystemError("the processes of this job run different versions of Stretto");
    if (!end->failure.empty()) throw SystemError(fabric::one_line(end->failure, 1000));
    ends.push_back(std::move(*end));
  }
  return ends;
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

RunFault PlanRunner::problem_of(const fabric::RunOutcome& outcome, const std::vector<RunEnd>& ends,
                                const std::string& collectives) {
  std::vector<StuckWait> stuck = std::move(stuck_);
  stuck_.clear();
  std::string wrong_set;
  for (const fabric::ExpiredWait& expired : outcome.expired) {
    if (expired.error.signal == device::kWrongSet) {
      wrong_set = fmt::format(
          "rank {}: buffers alternate between {} copies, but copy engines take their addresses "
          "from the host: capture a multiple of {} runs in a graph, and make as many or none "
          "between "
          "its capture and its launches, or lower with reuse=ack",
          expired.rank, cuda::num_sets(plan_), cuda::num_sets(plan_));
    } else if (fabric_.is_local(expired.rank)) {
      stuck.push_back(of(expired.rank).streams->locate(expired.error));
    }
  }
  add_let_go(stuck, own_let_go());
  stuck = of_all_processes(stuck);
  drop_let_go_alone(stuck);
  if (!wrong_set.empty()) return RunFault(wrong_set);
  bool released_nccl = false, nccl_is_gone = false;
  std::vector<RankStand> all_stands;
  for (const RunEnd& end : ends) {
    released_nccl = released_nccl || end.released_nccl;
    nccl_is_gone = nccl_is_gone || end.nccl_is_gone;
    all_stands.insert(all_stands.end(), end.stands.begin(), end.stands.end());
  }
  // Who did not come explains all waits; where nobody is known, they may explain more.
  if (released_nccl && (stuck.empty() || !absent_ranks(all_stands).empty())) {
    return RunFault(describe_absent(all_stands, options_.timeout_ns));
  }
  if (!stuck.empty()) return fault_of(plan_, stuck, options_.timeout_ns);
  if (!collectives.empty()) return RunFault(collectives);
  if (outcome.aborted) return RunFault("a run was aborted, and no rank says why");
  return RunFault(
      "the collectives of NCCL were given up with another plan's, so what this one's runs since "
      "the last finish() computed is useless");
}

// As after construction, on all processes; false as long as NCCL cannot be connected.
bool PlanRunner::restart() {
  state_.reset();
  for (int rank = fabric_.first_rank(); rank < last_rank(); ++rank) {
    fabric_.device(rank).make_current();
    of(rank).streams->restart();
  }
  if (nccl_ == nullptr) return true;
  if (!nccl_->renew(fabric_.group())) return false;
  if (nccl_->generation() == nccl_generation_) return true;
  connect_nccl();
  nccl_generation_ = nccl_->generation();
  return true;
}

std::optional<int> PlanRunner::captured_rank() const {
  for (int rank = fabric_.first_rank(); rank < last_rank(); ++rank) {
    fabric_.device(rank).make_current();
    if (cuda::Stream(of(rank).used).capture()) return rank;
  }
  return std::nullopt;
}

bool PlanRunner::was_captured() const {
  return std::any_of(ranks_.begin(), ranks_.end(),
                     [](const Rank& rank) { return rank.streams->was_captured(); });
}

void PlanRunner::require_no_capture() const {
  const std::optional<int> rank = captured_rank();
  if (!rank) return;
  throw UsageError(fmt::format(
      "the stream of rank {}'s last run is being captured, and nobody can wait for it: end the "
      "capture first",
      *rank));
}

void PlanRunner::finish() {
  // Told then, of runs that now shall be over.
  const bool was_told = !has_met_;
  has_met_ = false;
  if (!was_told) stuck_.clear();
  ++finishes_;
  RunEnd mine;
  try {
    wait_for_runs(mine);
  } catch (const SystemError& error) {
    mine.failure = error.what();
  }
  mine.nccl_is_gone =
      nccl_ != nullptr && (nccl_->is_aborted() || nccl_->generation() != nccl_generation_);
  if (mine.stands.empty()) mine.stands.resize(ranks_.size());
  for (size_t i = 0; i < ranks_.size(); ++i) {
    mine.stands[i].given = std::exchange(ranks_[i].given, 0);
  }
  const bool may_be_late = fabric_.group().size() > 1;
  const bool has_failed = may_be_late && (!mine.failure.empty() || mine.nccl_is_gone || aborted());
  const std::vector<RunEnd> ends = meet(mine, has_failed);
  // The caller may end its streams now.
  for (Rank& rank : ranks_) {
    rank.used = rank.main->handle();
    rank.streams->end_runs();
  }
  const fabric::RunOutcome outcome = state_.collect();
  const std::string collectives = low_latency_ ? low_latency_->take_problem() : "";
  const bool lost_nccl =
      std::any_of(ends.begin(), ends.end(), [](const RunEnd& end) { return end.nccl_is_gone; });
  if (outcome.aborted || !collectives.empty() || lost_nccl) {
    const RunFault problem = problem_of(outcome, ends, collectives);
    if (!restart()) {
      if (was_told) throw SystemError(fabric::kStillHeld);
      throw RunFault(fmt::format("{}; then: {}", problem.what(), fabric::kStillHeld),
                     problem.where());
    }
    has_met_ = true;
    if (!was_told) throw problem;
  }
  has_met_ = true;
  std::vector<RankStand> all;
  for (const RunEnd& end : ends) all.insert(all.end(), end.stands.begin(), end.stands.end());
  if (const std::string problem = describe_given(all); !problem.empty()) throw RunFault(problem);
}

}  // namespace stretto::runtime

#include "runtime/plan_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "cuda/plan_limits.h"
#include "stretto/check.h"
#include "stretto/error.h"
#include "stretto/serve.h"

namespace stretto::runtime {
namespace {

using cuda::check;
using cuda::driver;
using device::RunControl;
using Clock = std::chrono::steady_clock;

const Plan& require_runnable(const Plan& plan, const cuda::TileSums& sums,
                             const RunnerOptions& options) {
  if (const auto reasons = cuda::why_not_on_cuda(plan, sums, options.serves); !reasons.empty()) {
    throw UsageError(fmt::format("this plan cannot run on GPUs: {}", fmt::join(reasons, "; ")));
  }
  if (!options.serves) return plan;
  if (const auto reasons = why_not_served(plan); !reasons.empty()) {
    throw UsageError(
        fmt::format("this plan serves {} rows only: {}", plan.op.m, fmt::join(reasons, "; ")));
  }
  return plan;
}

int count_lanes(const Plan& plan, LaneKind kind, int rank) {
  return static_cast<int>(
      std::count_if(plan.lanes.begin(), plan.lanes.end(),
                    [&](const Lane& lane) { return lane.kind == kind && lane.rank == rank; }));
}

}  // namespace

PlanRunner::PlanRunner(const Plan& plan, fabric::Fabric& fabric, const cuda::Compiler& compiler,
                       const RunnerOptions& options, const Bindings& bindings)
    : PlanRunner(plan, fabric, std::make_unique<KernelStore>(compiler), nullptr, options,
                 bindings) {}

PlanRunner::PlanRunner(const Plan& plan, fabric::Fabric& fabric, KernelStore& kernels,
                       const RunnerOptions& options, const Bindings& bindings)
    : PlanRunner(plan, fabric, nullptr, &kernels, options, bindings) {}

PlanRunner::PlanRunner(const Plan& plan, fabric::Fabric& fabric,
                       std::unique_ptr<KernelStore> own_kernels, KernelStore* kernels,
                       const RunnerOptions& options, const Bindings& bindings)
    : sums_(std::make_shared<const cuda::TileSums>(plan)),
      plan_(require_runnable(plan, *sums_, options)),
      fabric_(fabric),
      own_kernels_(std::move(own_kernels)),
      kernels_(own_kernels_ ? *own_kernels_ : *kernels),
      options_(options),
      programs_(cuda::programs_of(plan, sums_)),
      signals_(plan, programs_, options.stream_waits),
      copied_notifies_(plan, signals_),
      memory_(plan, *sums_, fabric, bindings),
      state_(fabric, signals_.num_signals(), options.timeout_ns, "the signals of a plan") {
  require_room();
  bool uses_nccl = false;
  int free_sms = fabric.device(fabric.first_rank()).num_sms();
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    uses_nccl = uses_nccl || count_lanes(plan, LaneKind::nccl, rank) > 0;
    free_sms = std::min(free_sms, plan.sms - count_lanes(plan, LaneKind::compute, rank) -
                                      count_lanes(plan, LaneKind::comm, rank));
  }
  // Where NCCL runs beside kernels it must do with the SMs that they leave it.
  const fabric::Communicators* nccl =
      uses_nccl ? &fabric.communicators(std::max(0, free_sms)) : nullptr;
  ranks_.resize(static_cast<size_t>(fabric.num_local()));
  fabric.group().together("making a plan's kernels", [&] {
    for (int rank = fabric.first_rank(); rank < last_rank(); ++rank) {
      add_rank(rank, nccl);
    }
  });
  if (uses_nccl)
    fabric.group().together("connecting a plan's collectives", [&] { connect_nccl(); });
}

PlanRunner::~PlanRunner() {
  // Owners free what they have on the GPU it lies on.
  for (int rank = fabric_.first_rank(); rank < last_rank(); ++rank) {
    driver().context_set(fabric_.device(rank).context());
    if (static_cast<size_t>(rank - fabric_.first_rank()) < ranks_.size()) of(rank) = Rank();
  }
}

void PlanRunner::require_room() const {
  if (plan_.ranks() != fabric_.ranks()) {
    throw UsageError(fmt::format("a plan of {} ranks on {} GPUs", plan_.ranks(), fabric_.ranks()));
  }
  const cuda::Device& device = fabric_.device(fabric_.first_rank());
  if (const auto why = cuda::why_not_on_arch(device.arch()); !why.empty()) throw SystemError(why);
  const int sms = device.num_sms();
  for (int rank = 0; rank < plan_.ranks(); ++rank) {
    const int blocks =
        count_lanes(plan_, LaneKind::compute, rank) + count_lanes(plan_, LaneKind::comm, rank);
    if (blocks <= sms) continue;
    throw UsageError(fmt::format(
        "the plan keeps {} SMs busy, this GPU has {}: lower it for a machine with sms={}", blocks,
        sms, sms));
  }
  if (const auto reasons = why_not_resident(plan_, sms); !reasons.empty()) {
    throw UsageError("this plan could hang: " + reasons.front());
  }
}

void PlanRunner::add_rank(int rank, const fabric::Communicators* nccl) {
  const cuda::Device& device = fabric_.device(rank);
  device.make_current();
  Rank& mine = of(rank);
  mine.main = std::make_unique<cuda::Stream>();
  mine.used = mine.main->handle();
  std::vector<cuda::DevicePtr> counters;
  for (int owner = 0; owner < plan_.ranks(); ++owner) {
    counters.push_back(state_.counters(owner, rank));
  }
  mine.streams = std::make_unique<RankStreams>(
      RankStreams::Setup{plan_, rank, device, kernels_, programs_[static_cast<size_t>(rank)],
                         signals_, copied_notifies_, state_.space(rank), std::move(counters),
                         memory_.places(rank), nccl, options_.serves});
  memory_.poison(rank, *mine.main);
  mine.main->synchronize();
}

void PlanRunner::connect_nccl() {
  fabric::as_one_operation([&] {
    for (int rank = fabric_.first_rank(); rank < last_rank(); ++rank) {
      fabric_.device(rank).make_current();
      of(rank).streams->enqueue_collectives(*of(rank).main);
    }
  });
  for (int rank = fabric_.first_rank(); rank < last_rank(); ++rank) {
    fabric_.device(rank).make_current();
    of(rank).main->synchronize();
    memory_.poison(rank, *of(rank).main);
    of(rank).main->synchronize();
  }
}

cuda::DevicePtr PlanRunner::buffer(std::string_view name, int rank) const {
  const auto index = plan_.find_buffer(name);
  STRETTO_ASSERT(index.has_value(), "the plan has this buffer");
  return memory_.places(rank)[static_cast<size_t>(rank)][*index][0];
}

void PlanRunner::enqueue(int rank, cuda::StreamHandle stream, const CallRows& rows) {
  if (rows.at != 0 || rows.rows != 0) {
    if (!options_.serves) throw UsageError("this runner was not made to serve fewer rows");
    if (rows.at == 0) run_rows(plan_.op, rows.rows);
  }
  // A graph is launched on other streams than it was captured on.
  int is_captured = 0;
  uint64_t capture = 0;
  check(driver().capture_info(stream, &is_captured, &capture, nullptr, nullptr, nullptr),
        "ask whether a stream is captured");
  if (is_captured == 0) of(rank).used = stream;
  of(rank).streams->enqueue(stream, rows);
}

void PlanRunner::delay(int rank, uint64_t duration_ns) const {
  kernels_.sync(fabric_.device(rank)).delay(*of(rank).main, duration_ns);
}

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
    check(driver().copy_to_host(&abort, state_.control(rank) + offsetof(RunControl, abort),
                                sizeof(abort)),
          "read how a run goes");
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
  const auto timeout = std::chrono::nanoseconds(options_.timeout_ns);
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
    check(driver().copy_to_device(state_.control(rank) + offsetof(RunControl, abort), &abort,
                                  sizeof(abort)),
          "abort a run");
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
  const fabric::RunOutcome outcome = state_.collect();
  if (!outcome.aborted) return;
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
  if (problem.empty() && stuck.empty()) problem = "a run was aborted, and no rank says why";
  if (problem.empty()) problem = describe(plan_, root_of(plan_, stuck), options_.timeout_ns);
  throw SystemError(problem);
}

}  // namespace stretto::runtime

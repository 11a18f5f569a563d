#include "run/plan_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <set>

#include "check/meets.h"
#include "gpu/beside_captures.h"
#include "launch/cublas_gemms.h"
#include "launch/library_products.h"
#include "plan/kernel_calls.h"
#include "run/first_calls.h"
#include "run/plan_fit.h"
#include "run/rank_threads.h"
#include "stretto/error.h"
#include "stretto/serve.h"
#include "tables/edge_calls.h"

namespace stretto::runtime {
namespace {

using cuda::driver;

// Processes may choose differently where their tuning or machine files differ; what they then run
// may fit together by chance and mean something else. First of all, for what the plan is refused
// for is then the same on all of them.
fabric::Fabric& with_same_plan(fabric::Fabric& fabric, const Plan& plan) {
  fabric.group().require_same(
      "a plan, which auto makes by each process's own tuning file",
      fmt::format("{}, {} SMs, {}", to_string(plan.op), plan.sms, plan.schedule));
  return fabric;
}

std::vector<cuda::RankProgram> programs_that_fit(const Plan& plan,
                                                 const std::shared_ptr<const cuda::TileSums>& sums,
                                                 const fabric::Fabric& fabric) {
  std::vector<cuda::RankProgram> programs = cuda::programs_of(plan, sums);
  require_fits(plan, programs, fabric);
  return programs;
}

// As schedules name them: none where there is one.
std::vector<std::string> names_of_products(const Operator& op) {
  if (op.only_product() != nullptr) return {};
  std::vector<std::string> names;
  for (const OperatorSegment& segment : op.segments) {
    if (segment.product) names.push_back(segment.name);
  }
  return names;
}

bool has_collectives(const Plan& plan) {
  return std::any_of(plan.lanes.begin(), plan.lanes.end(),
                     [](const Lane& lane) { return lane.kind == LaneKind::nccl; });
}

// How many ranks those have that NCCL connects for the plan, beside all.
std::set<int> teams_of_collectives(const Plan& plan) {
  std::set<int> teams;
  for (const Lane& lane : plan.lanes) {
    for (const Instr& instr : lane.instrs) {
      if (instr.op == Opcode::collective && instr.team > 0) teams.insert(instr.team);
    }
  }
  return teams;
}

}  // namespace

PlanRunner::PlanRunner(const Plan& plan, fabric::Fabric& fabric, const cuda::Compiler& compiler,
                       const RunnerOptions& options)
    : PlanRunner(plan, fabric, std::make_unique<KernelStore>(compiler), nullptr, options) {}

PlanRunner::PlanRunner(const Plan& plan, fabric::Fabric& fabric, KernelStore& kernels,
                       const RunnerOptions& options)
    : PlanRunner(plan, fabric, nullptr, &kernels, options) {}

PlanRunner::PlanRunner(const Plan& plan, fabric::Fabric& fabric,
                       std::unique_ptr<KernelStore> own_kernels, KernelStore* kernels,
                       const RunnerOptions& options)
    : sums_(std::make_shared<const cuda::TileSums>(plan)),
      fabric_(with_same_plan(fabric, plan)),
      plan_(require_runnable(plan, *sums_, options.serves)),
      own_kernels_(std::move(own_kernels)),
      kernels_(own_kernels_ ? *own_kernels_ : *kernels),
      options_(options),
      why_not_in_memory_(
          options.rows_in_memory
              ? cuda::why_no_copy_of_rows(plan)
              : "this runner was made for rows that the host says, not for rows in memory"),
      programs_(programs_that_fit(plan, sums_, fabric)),
      signals_(plan, programs_, options.stream_waits),
      copied_notifies_(plan, signals_),
      memory_(plan, *sums_, fabric, options.tensors_at_calls, options.workspace,
              options.results != nullptr),
      workspace_use_{id_, memory_.in_workspace(),
                     memory_.in_workspace().region != nullptr && checker::meets_all_ranks(plan)},
      state_(fabric, signals_.num_signals(), options.timeout_ns, "the signals of a plan") {
  if (options.tensors_at_calls) {
    calls_.emplace(plan, memory_.shared(), options.serves, options.results);
  }
  if (options.call_graphs == nullptr) {
    own_call_graphs_.resize(static_cast<size_t>(fabric.num_local()));
  }
  if (has_collectives(plan)) make_collectives();
  make_ranks();
  if (workspace_use_.is_fence) stands_for_fences_.emplace(*options_.workspace, *this);
  if (nccl_ == nullptr) return;
  connect_nccl();
  fabric.group().together("poisoning a plan's buffers", [&] {
    for (int rank = fabric_.first_rank(); rank < last_rank(); ++rank) {
      fabric_.device(rank).make_current();
      memory_.poison(rank, *of(rank).main);
      of(rank).main->synchronize();
    }
  });
}

uint64_t PlanRunner::next_id() {
  static std::atomic<uint64_t> last = 0;
  return ++last;
}

// Kernels of the device language, or NCCL, which where it runs beside kernels must do with the SMs
// that they leave it; a library's kernels end by themselves.
void PlanRunner::make_collectives() {
  if (const std::string why = cuda::why_no_sources(plan_); !why.empty()) throw UsageError(why);
  if (any_by_language(plan_)) {
    low_latency_ = std::make_unique<LowLatencyLane>(plan_, fabric_, kernels_, options_.timeout_ns);
  }
  if (!any_by_nccl(plan_)) return;
  const cuda::Device& device = fabric_.device(fabric_.first_rank());
  nccl_ = &fabric_.communicators(plan_.library_gemms ? 0 : sms_left(plan_, device));
  if (!nccl_->renew(fabric_.group())) throw SystemError(fabric::kStillHeld);
  for (const int team : teams_of_collectives(plan_)) {
    nccl_->connect_teams(team, fabric_.group());
  }
  nccl_generation_ = nccl_->generation();
}

PlanRunner::~PlanRunner() { drop_ranks(); }

// Owners free what they have on the GPU it lies on.
void PlanRunner::drop_ranks() {
  for (int rank = fabric_.first_rank(); rank < last_rank(); ++rank) {
    driver().context_set(fabric_.device(rank).context());
    of(rank) = Rank();
  }
}

void PlanRunner::make_ranks() {
  const std::vector<int> asked = cuda::algorithms_by_product(plan_, programs_);
  ranks_.resize(static_cast<size_t>(fabric_.num_local()));
  const auto make = [&](const std::vector<bool>& first_algorithms) {
    fabric_.group().together("making a plan's kernels", [&] {
      for (int rank = fabric_.first_rank(); rank < last_rank(); ++rank) {
        add_rank(rank, first_algorithms);
      }
    });
  };
  make({});
  if (std::all_of(asked.begin(), asked.end(), [](int one) { return one == 0; })) return;
  // By product; negative, for what all learn is the largest.
  std::vector<double> most(asked.size(), -kMostAlgorithms);
  for (const Rank& rank : ranks_) {
    const std::vector<int> proposed = rank.streams->num_proposed();
    for (size_t i = 0; i < most.size(); ++i) most[i] = std::max(most[i], -1.0 * proposed[i]);
  }
  most = largest(fabric_, "how many algorithms cuBLAS does not propose", std::move(most));
  std::vector<int> proposed;
  for (const double negative : most) proposed.push_back(static_cast<int>(-negative));
  not_proposed_ = stretto::not_proposed(asked, proposed);
  if (not_proposed_.empty()) return;
  drop_ranks();
  if (options_.if_not_proposed == IfNotProposed::refuse) {
    throw UsageError(why_not_proposed(not_proposed_.front(), names_of_products(plan_.op)));
  }
  std::vector<bool> first(asked.size());
  for (const NotProposed& one : not_proposed_) first[one.product] = true;
  make(first);
}

void PlanRunner::add_rank(int rank, const std::vector<bool>& first_algorithms) {
  const cuda::Device& device = fabric_.device(rank);
  device.make_current();
  Rank& mine = of(rank);
  mine.main = std::make_unique<cuda::Stream>();
  mine.used = mine.main->handle();
  auto& call_graphs = options_.call_graphs != nullptr ? *options_.call_graphs : own_call_graphs_;
  std::vector<cuda::DevicePtr> counters;
  for (int owner = 0; owner < plan_.ranks(); ++owner) {
    counters.push_back(state_.counters(owner, rank));
  }
  mine.streams = std::make_unique<RankStreams>(RankStreams::Setup{
      plan_, rank, device, kernels_, programs_[static_cast<size_t>(rank)], signals_,
      copied_notifies_, state_.space(rank), std::move(counters), memory_.places(rank), nccl_,
      low_latency_.get(), options_.serves, options_.serves && why_not_in_memory_.empty(),
      options_.marks, first_algorithms, options_.most_proposals, calls_ ? &*calls_ : nullptr,
      &call_graphs[static_cast<size_t>(rank - fabric_.first_rank())]});
  mine.streams->enqueue_products(*mine.main);
  memory_.poison(rank, *mine.main);
  mine.main->synchronize();
  mine.streams->begin_calls();
}

void PlanRunner::connect_nccl() {
  make_calls(
      fabric_, nccl_, "a plan's first collectives of NCCL", kFirstCallsTimeout,
      [&] {
        fabric::as_one_operation([&] {
          for (int rank = fabric_.first_rank(); rank < last_rank(); ++rank) {
            fabric_.device(rank).make_current();
            of(rank).streams->enqueue_collectives(*of(rank).main);
          }
        });
      },
      [&](int rank) { return idle(of(rank)); });
  fabric_.group().together("beginning a plan's calls", [&] {
    for (int rank = fabric_.first_rank(); rank < last_rank(); ++rank) {
      fabric_.device(rank).make_current();
      of(rank).streams->begin_calls();
    }
  });
}

cuda::DevicePtr PlanRunner::buffer(std::string_view name, int rank) const {
  const auto index = plan_.find_buffer(name);
  STRETTO_ASSERT(index.has_value(), "the plan has this buffer");
  return memory_.places(rank)[static_cast<size_t>(rank)][*index][0];
}

void PlanRunner::enqueue(int rank, cuda::StreamHandle stream, const RowsOfCall& rows,
                         std::span<const CallTensor> tensors) {
  const cuda::BesideCaptures beside;
  enqueue_at(rank, stream, rows, places_of(rank, rows, tensors));
}

std::vector<cuda::CallPlace> PlanRunner::places_of(int rank, const RowsOfCall& rows,
                                                   std::span<const CallTensor> tensors) {
  if (!has_met_) {
    throw SystemError(
        "the last finish() did not meet all ranks, and says why: call it again, on all of them, "
        "before the next run");
  }
  if (nccl_ != nullptr && (nccl_->is_aborted() || nccl_->generation() != nccl_generation_)) {
    throw SystemError(
        "the collectives of NCCL were given up with another plan's: finish() connects them again");
  }
  if (rows.at != 0 || rows.rows != 0) {
    if (!options_.serves) throw UsageError("this runner was not made to serve fewer rows");
    if (rows.rows != 0) run_rows(plan_.op, rows.rows);
    if (rows.at != 0 && !why_not_in_memory_.empty()) throw UsageError(why_not_in_memory_);
  }
  if (!calls_) return {};
  auto places =
      calls_->places(rank, rows.rows != 0 ? rows.rows : plan_.op.rows(), tensors, rows.at != 0);
  of(rank).known.require_good(*calls_, fabric_.device(rank), rank, places, rows.at);
  return places;
}

void PlanRunner::enqueue_at(int rank, cuda::StreamHandle stream, const RowsOfCall& rows,
                            cuda::CallPlaces places) {
  // A graph is launched on other streams than it was captured on.
  const std::optional<uint64_t> capture = cuda::Stream(stream).capture();
  if (!capture) of(rank).used = stream;
  if (calls_) of(rank).given = calls_->sum_of_shared(rank, places, of(rank).given);
  of(rank).streams->enqueue(stream, rows, capture, places);
}

uint64_t PlanRunner::copied_bytes() const {
  uint64_t all = 0;
  for (const Rank& rank : ranks_) all += rank.streams->copied_bytes();
  return all;
}

std::vector<std::vector<KernelMarks>> PlanRunner::marks() const {
  std::vector<std::vector<KernelMarks>> by_rank;
  for (int rank = fabric_.first_rank(); rank < last_rank(); ++rank) {
    fabric_.device(rank).make_current();
    by_rank.push_back(of(rank).streams->marks());
  }
  return by_rank;
}

void PlanRunner::delay(int rank, uint64_t duration_ns) const {
  kernels_.sync(fabric_.device(rank)).delay(*of(rank).main, duration_ns);
}

}  // namespace stretto::runtime

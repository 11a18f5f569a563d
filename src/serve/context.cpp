#include "stretto/context.h"

#include <fmt/format.h>

#include "core/environment.h"
#include "gpu/beside_captures.h"
#include "serve/context_state.h"
#include "stretto/error.h"

namespace stretto {

using cuda::check;
using cuda::driver;

namespace {

constexpr double kUsualBudgetMs = 100;

}  // namespace

Context::State::State(std::unique_ptr<fabric::Fabric> opened, const ContextOptions& options)
    : timeout_ns(static_cast<uint64_t>(options.timeout_s * 1e9)),
      fabric(std::move(opened)),
      kernels(compiler),
      results(*fabric),
      // What was measured had whole GPUs.
      tuning(fabric->ranks_a_gpu() > 1 ? Tuning() : load_tuning()),
      machine(default_machine(fabric->ranks())),
      call_graphs(static_cast<size_t>(fabric->num_local())),
      memory(static_cast<size_t>(fabric->num_local())) {
  fabric->group().require_same(
      "the options of a context",
      fmt::format("workspace_bytes={} workspace_grows={} orders_streams={}",
                  options.workspace_bytes, options.workspace_grows, options.orders_streams));
  machine.gpu = fabric->device(fabric->first_rank()).name();
  for (int rank = fabric->first_rank(); rank < fabric->first_rank() + fabric->num_local(); ++rank) {
    fabric->device(rank).make_current();
    limit_sms(machine, fabric->device(rank).num_sms());
    streams.push_back(std::make_unique<cuda::Stream>());
    if (!options.orders_streams) continue;
    // Runs of ranks that share a GPU go on at once.
    orders.push_back(fabric->ranks_a_gpu() > 1 ? std::make_shared<StreamOrder>()
                                               : StreamOrder::of_gpu(fabric->device(rank).index()));
  }
  learning = std::make_unique<Learning>(Learning::Of{*fabric, compiler, kernels, machine, tuning,
                                                     timeout_ns, [this] { return why_not_wait(); }},
                                        default_budget_ms());
  if (options.workspace_bytes == 0 && !options.workspace_grows) return;
  const auto growth =
      options.workspace_grows ? runtime::WorkspaceGrowth::doubles : runtime::WorkspaceGrowth::none;
  workspace = make_workspace({options.workspace_bytes, growth}, false);
}

// What ranks that share GPUs take is of no use to anybody, unless someone asks for it.
double Context::State::default_budget_ms() const {
  const auto asked = measure_ms_of(environment().measure_ms);
  return asked.value_or(fabric->ranks_a_gpu() > 1 ? 0 : kUsualBudgetMs);
}

std::string Context::State::why_not_wait() const {
  for (int i = 0; i < fabric->num_local(); ++i) {
    const int rank = fabric->first_rank() + i;
    fabric->device(rank).make_current();
    if (streams[static_cast<size_t>(i)]->capture() || cuda::is_legacy_captured()) {
      return fmt::format("a stream of rank {}'s GPU is being captured", rank);
    }
  }
  for (const auto& [operation, is_captured_now] : is_captured) {
    if (is_captured_now()) return "the stream of an operation's last run is being captured";
  }
  return "";
}

std::unique_ptr<OperationWorkspace> Context::State::make_workspace(
    const runtime::WorkspaceSize& size, bool of_one_plan) {
  return std::make_unique<OperationWorkspace>(*fabric, kernels, timeout_ns, size, of_one_plan);
}

Context::State::~State() {
  left.clear();  // they wait for their calls now
  for (size_t i = 0; i < streams.size(); ++i) {
    driver().context_set(fabric->device(fabric->first_rank() + static_cast<int>(i)).context());
    if (!orders.empty()) orders[i].reset();
    streams[i].reset();
    memory[i].clear();
  }
}

void Context::State::require_own_process() const {
  if (!is_forked()) return;
  throw SystemError(
      "this process was forked from the one that opened the context: a fork has no rank of its "
      "own, and no GPU; start processes by torchrun, mpirun, `stretto launch` or, in Python, with "
      "the start method 'spawn'");
}

size_t Context::State::local(int rank) const {
  require_own_process();
  if (!fabric->is_local(rank)) {
    throw UsageError(fmt::format("rank {} is not of this process, which has {} to {}", rank,
                                 fabric->first_rank(),
                                 fabric->first_rank() + fabric->num_local() - 1));
  }
  return static_cast<size_t>(rank - fabric->first_rank());
}

const cuda::Device& Context::State::device(int rank) const {
  local(rank);
  return fabric->device(rank);
}

namespace {

void require_sizes(int ranks, double timeout_s) {
  measure_ms_of(environment().measure_ms);  // before others are met, who would wait
  if (ranks < 1 || ranks > kMaxRanks) {
    throw UsageError(fmt::format("a context of {} ranks; it has 1 to {}", ranks, kMaxRanks));
  }
  if (!(timeout_s > 0 && timeout_s <= 3600)) {
    throw UsageError(fmt::format("a timeout of {} s; it is more than 0, at most 3600", timeout_s));
  }
}

}  // namespace

Context::Context(int ranks, const ContextOptions& options) {
  require_sizes(ranks, options.timeout_s);
  state_ = std::make_unique<State>(
      fabric::open_fabric(ranks, std::nullopt, options.timeout_s, options.free_sms), options);
}

Context::Context(const JobRank& job, const ContextOptions& options) {
  require_sizes(job.ranks, options.timeout_s);
  state_ = std::make_unique<State>(fabric::join({job.rank, job.ranks, job.gpu, job.exchange},
                                                options.timeout_s, options.free_sms),
                                   options);
}

// What a fork has of it is the first process's.
Context::~Context() {
  if (state_->is_forked()) static_cast<void>(state_.release());
}

int Context::ranks() const { return state_->fabric->ranks(); }
int Context::first_rank() const { return state_->fabric->first_rank(); }
int Context::num_local() const { return state_->fabric->num_local(); }
int Context::gpu(int rank) const { return state_->device(rank).index(); }
size_t Context::workspace_bytes() const {
  return state_->workspace ? state_->workspace->memory().num_bytes() : 0;
}
void Context::make_current(int rank) const { state_->device(rank).make_current(); }
GpuStream Context::stream(int rank) const { return state_->streams[state_->local(rank)]->handle(); }

void Context::copy_to_gpu(int rank, GpuAddress to, const void* from, size_t num_bytes) const {
  make_current(rank);
  cuda::copy_to_gpu(to, from, num_bytes);
}

void Context::copy_from_gpu(int rank, void* to, GpuAddress from, size_t num_bytes) const {
  make_current(rank);
  cuda::copy_from_gpu(to, from, num_bytes);
}

std::vector<GpuAddress> Context::allocate_shared(size_t num_bytes) {
  state_->require_own_process();
  const cuda::BesideCaptures beside;
  const fabric::Region& made = state_->results.add(num_bytes);
  std::vector<GpuAddress> by_rank;
  for (int i = 0; i < num_local(); ++i) by_rank.push_back(made.local(first_rank() + i));
  return by_rank;
}

GpuAddress Context::allocate(int rank, size_t num_bytes) {
  state_->require_own_process();
  const cuda::BesideCaptures beside;
  make_current(rank);
  return state_->memory[state_->local(rank)].emplace_back(num_bytes).address();
}

}  // namespace stretto

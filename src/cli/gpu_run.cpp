#include "cli/gpu_run.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/gpu_timeline.h"
#include "cli/prediction.h"
#include "core/text.h"
#include "gpu/cublas.h"
#include "launch/cublas_gemms.h"
#include "launch/rank_program.h"
#include "launch/shared_streams.h"
#include "measure/run_graphs.h"
#include "stretto/error.h"
#include "tables/plan_limits.h"

namespace stretto::cli {
namespace {

constexpr size_t kMostOfAReason = 1000;  // characters

// What a process tells the others of its part: nothing when it is done.
constexpr char kRefused = '-', kFailed = '!';

ExitCode exit_code_of(const GpuRow& row, bool need_all) {
  if (!row.fault.empty()) return kSystemFault;
  if (!row.refused.empty()) return need_all ? kBadUsage : kGood;
  return row.good() ? kGood : kWrong;
}

}  // namespace

bool GpuRow::verified() const {
  return std::all_of(by_seed.begin(), by_seed.end(), [](const auto& r) { return r.verified(); });
}

bool GpuRow::reproducible() const {
  return std::all_of(by_seed.begin(), by_seed.end(), [&](const auto& result) {
    return result.reproducible && result.output_hash == by_seed.front().output_hash;
  });
}

std::vector<GpuRow> GpuRun::run() {
  std::vector<GpuRow> rows;
  Progress progress;
  const double share = 1.0 / static_cast<double>(request_.num_plans());
  for_each_plan(request_, progress, [&](const NamedPlan& named) {
    rows.push_back(evaluate(named, progress, share * static_cast<double>(rows.size()), share));
  });
  return rows;
}

GpuRow GpuRun::evaluate(const NamedPlan& named, Progress& progress, double done, double share) {
  GpuRow row;
  row.describe(named);
  if (named.plan == nullptr) return row;
  const Plan& plan = *named.plan;
  if (cuda::takes_cublas(plan)) {
    // One process without it keeps all from a plan that they would make together.
    const std::string mine = cuda::why_no_cublas().substr(0, kMostOfAReason);
    for (const std::string& one : gpus_.group().all_gather("whether there is cuBLAS", mine)) {
      if (!one.empty() && row.refused.empty()) {
        row.refused = {one == mine ? one : fabric::one_line(one, kMostOfAReason)};
      }
    }
    if (!row.refused.empty()) return row;
  }
  if (shares()) {
    row.refused = cuda::why_not_shared(plan, cuda::programs_of(plan), gpus_.ranks_a_gpu());
    if (!row.refused.empty()) return row;
  }
  row.counts = plan_counts(plan);
  row.check = check(plan);  // a run of fewer rows is enqueued alone here
  row.check_json = to_json(row.check, plan, named.lines());
  // A plan that is known to be wrong would only end in a deadline.
  if (!row.check.clean()) return row;
  row.simulation = predict(named, request_.machine);
  attempt(row, named, progress, done, share);
  return row;
}

// All processes of a job say the same of a row. Where they do not come to that, this throws: nobody
// is left to go on with.
void GpuRun::attempt(GpuRow& row, const NamedPlan& named, Progress& progress, double done,
                     double share) {
  std::string mine;
  try {
    verify(row, named, progress, done, share);
    if (row.verified() && options_.timeline) {
      row.timeline =
          named.plan->any_library()
              ? "no timeline: a library or the kernel of few rows multiplies, and does not tell "
                "when\n"
              : measure_timeline(*named.plan, named.lines(), gpus_, compiler_, options_.perfetto);
    }
  } catch (const UsageError& error) {
    mine = fmt::format("{}{}", kRefused, error.what());
  } catch (const runtime::RunFault& fault) {
    mine = kFailed + place(named.file, fault.where()) + fault.what();
  } catch (const SystemError& error) {
    mine = fmt::format("{}{}", kFailed, error.what());
  }
  mine = mine.substr(0, kMostOfAReason);
  std::string ended;
  for (const std::string& one : gpus_.group().all_gather("the end of a strategy", mine)) {
    // A refusal is why the others' parts failed.
    if (one.starts_with(kRefused) && !ended.starts_with(kRefused)) ended = one;
    if (one.starts_with(kFailed) && ended.empty()) ended = one;
  }
  if (ended.empty()) return;
  const std::string why =
      ended == mine ? ended.substr(1) : fabric::one_line(ended.substr(1), kMostOfAReason);
  if (ended.front() == kRefused) {
    row.refused = {why};
  } else {
    row.fault = why;
  }
  row.by_seed.clear();
  row.times_us.clear();
}

void GpuRun::verify(GpuRow& row, const NamedPlan& named, Progress& progress, double done,
                    double share) {
  progress.show("compiling kernels of " + row.name, done);
  runtime::RunnerOptions how;
  if (named.choice != nullptr) how.if_not_proposed = named.choice->if_not_proposed();
  runtime::PlanRunner runner(*named.plan, gpus_, compiler_, how);
  if (const auto& of = runner.not_proposed(); !of.empty()) {
    const AutoSchedules taken = with_first_algorithms({named.choice->schedule, row.reason}, of);
    row.schedule = to_string(taken.schedule);
    row.reason = taken.reason;
  }
  for (int64_t seed = 0; seed < options_.num_seeds; ++seed) {
    runtime::GpuCheckOptions gpu;
    gpu.seed = options_.emulate.seed + static_cast<uint64_t>(seed);
    gpu.data_seed = options_.emulate.data_seed;
    gpu.reference = options_.emulate.reference;
    gpu.routing = options_.emulate.routing;
    gpu.replays = options_.replays;
    if (options_.fill_given) gpu.fills = {options_.emulate.fill};
    if (options_.runs_given) gpu.runs = options_.emulate.runs;
    gpu.progress = [&](double part) {
      const double seeds = static_cast<double>(options_.num_seeds);
      progress.show("verifying " + row.name,
                    done + share * (static_cast<double>(seed) + part) / seeds);
    };
    runtime::GpuCheckResult& result =
        row.by_seed.emplace_back(runtime::check_on_gpus(runner, gpus_, gpu));
    result.fault = place(named.file, result.fault_at) + result.fault;
  }
  if (row.verified() && !shares()) time(row, runner);
}

void GpuRun::time(GpuRow& row, runtime::PlanRunner& runner) {
  const runtime::RunGraphs graphs(runner, gpus_, kRunsPerGraph);
  graphs.time_us();
  for (int round = 0; round < kRounds; ++round) row.times_us.push_back(graphs.time_us());
  std::sort(row.times_us.begin(), row.times_us.end());
}

ExitCode exit_code_of(const std::vector<GpuRow>& rows, bool need_all) {
  const bool some_ran =
      std::any_of(rows.begin(), rows.end(), [](const GpuRow& row) { return row.ran(); });
  ExitCode worst = kGood;
  for (const GpuRow& row : rows) worst = std::max(worst, exit_code_of(row, need_all || !some_ran));
  return worst;
}

void require_it_ran(const GpuRow& only) {
  if (!only.fault.empty()) throw SystemError(only.fault);
  if (only.refused.empty()) return;
  throw UsageError(fmt::format("{} cannot run on GPUs: {}", only.name, join(only.refused, "; ")));
}

}  // namespace stretto::cli

#include "cli/run_on_gpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/gpu_report.h"
#include "cli/gpu_run.h"
#include "cli/gpus.h"
#include "cli/json.h"
#include "cli/request.h"
#include "core/text.h"
#include "gpu/device.h"
#include "gpu/shared_gpus.h"
#include "stretto/check.h"
#include "stretto/error.h"
#include "tables/plan_limits.h"

namespace stretto::cli {
namespace {

// Before a GPU is looked for: what no GPU can run.
void require_runnable(const PlanFile& file) {
  const auto place_of = [&](const std::optional<InstrRef>& where) {
    return where ? place(&file, where) : file.name + ": ";
  };
  std::string why;
  for (const cuda::PlanLimit& limit : cuda::limits_on_cuda(file.plan, cuda::TileSums(file.plan))) {
    why += why.empty() ? place_of(limit.where) + "this plan cannot run on GPUs: "
                       : "; " + place(&file, limit.where);
    why += limit.reason;
  }
  if (!why.empty()) throw UsageError(why);
  if (const auto found = why_not_resident(file.plan, file.plan.sms); !found.empty()) {
    throw UsageError(fmt::format("{}this plan could hang on GPUs: {}: {}",
                                 place_of(found.front().where), found.front().message,
                                 found.front().hint));
  }
}

// They share the GPUs that one number of SMs was planned for.
void require_alike(const std::vector<PlanFile>& files) {
  for (const PlanFile& file : files) {
    if (file.plan.sms == files.front().plan.sms) continue;
    throw UsageError(fmt::format("{} is for {} SMs, {} for {}: run them one after the other",
                                 files.front().name, files.front().plan.sms, file.name,
                                 file.plan.sms));
  }
}

void require_perfetto(const Request& request) {
  if (request.num_plans() > 1) {
    throw UsageError(
        "--perfetto writes one timeline; name one strategy, for example --strategy tiles, or one "
        "file");
  }
  const auto without_tiles = [](const OperatorSchedule& schedule) {
    return std::any_of(schedule.products.begin(), schedule.products.end(),
                       [](const Schedule& one) { return one.gemm != GemmBy::tiles; });
  };
  if (!request.files.empty() ? request.files.front().plan.any_library()
                             : without_tiles(request.choices.front().schedule)) {
    throw UsageError(
        "--perfetto with gemm=library or few-rows: their kernels do not tell when they do what; "
        "take a schedule with gemm=tiles");
  }
}

Request request_of(const Options& options, const ExecutionOptions& execution,
                   const OnGpus& on_gpus) {
  Request request = resolve(options, on_gpus);
  require_routing(execution, request.op);
  require_alike(request.files);
  for (const PlanFile& file : request.files) require_runnable(file);
  if (request.files.empty()) {
    refuse_what_no_gpu_runs(request.choices, request.planned, request.op.rows(), request.machine);
    require_served(request.choices, needs_all(options));
  }
  if (!execution.perfetto.empty()) require_perfetto(request);
  return request;
}

}  // namespace

Outcome run_on_gpus(const Options& options, const ExecutionOptions& execution) {
  OnGpus on_gpus{.ranks_each = cuda::ranks_a_gpu(), .name = cuda::gpu_name()};
  Request request = request_of(options, execution, on_gpus);
  if (execution.timeline) cuda::require_own_gpus_for_times();
  const std::unique_ptr<fabric::Fabric> gpus = open_gpus(request.op.ranks);
  // Blocks of a plan all have an SM of their own. A file's plan is what it is.
  if (request.files.empty() && sms_of(*gpus) < request.machine.sms) {
    on_gpus.most_sms = sms_of(*gpus);
    request = request_of(options, execution, on_gpus);
  }
  const std::vector<GpuRow> rows = GpuRun(request, execution, *gpus).run();
  if (rows.size() == 1) require_it_ran(rows.front());
  const ExitCode code = exit_code_of(rows, needs_all(options));
  if (gpus->first_rank() != 0) return {"", code};
  return {options.json ? dump(to_json(rows, request, execution, *gpus, code == kGood))
                       : print(rows, request, execution, *gpus),
          code};
}

}  // namespace stretto::cli

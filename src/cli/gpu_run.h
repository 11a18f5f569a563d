// Plans on GPUs, one after the other: proved, verified, timed, and what came of each.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/execution.h"
#include "cli/json.h"
#include "cli/progress.h"
#include "cli/request.h"
#include "cli/verb.h"
#include "fabric/fabric.h"
#include "gpu/compiler.h"
#include "measure/gpu_check.h"
#include "stretto/check.h"
#include "stretto/simulate.h"

namespace stretto::cli {

struct GpuRow : PlanRow {
  std::string fault;  // of the system, which kept it from a result
  CheckReport check;
  Json check_json, counts;
  std::vector<runtime::GpuCheckResult> by_seed;
  std::vector<double> times_us;  // ascending
  std::optional<Simulation> simulation;
  std::string timeline;

  bool ran() const { return refused.empty() && fault.empty(); }
  bool verified() const;
  bool reproducible() const;
  bool good() const {
    return fault.empty() && check.clean() && verified() && (reproducible() || !must_reproduce);
  }
  double time_us() const { return times_us.empty() ? 0 : times_us[times_us.size() / 2]; }
};

class GpuRun {
 public:
  static constexpr int kRunsPerGraph = 10;  // even: see PlanRunner::runs_per_graph()
  static constexpr int kRounds = 11;

  GpuRun(const Request& request, const ExecutionOptions& options, fabric::Fabric& gpus)
      : request_(request), options_(options), gpus_(gpus) {}

  // Collective. What ends one plan leaves the others their turns; throws SystemError when processes
  // of a job have lost each other.
  std::vector<GpuRow> run();

 private:
  bool shares() const { return gpus_.ranks_a_gpu() > 1; }
  GpuRow evaluate(const NamedPlan& named, Progress& progress, double done, double share);
  void attempt(GpuRow& row, const NamedPlan& named, Progress& progress, double done, double share);
  void verify(GpuRow& row, const NamedPlan& named, Progress& progress, double done, double share);
  void time(GpuRow& row, runtime::PlanRunner& runner);

  const Request& request_;
  const ExecutionOptions& options_;
  fabric::Fabric& gpus_;
  cuda::Compiler compiler_;
};

// The worst of them: a fault of the system, then a refusal where all are needed or none ran, then a
// wrong result.
ExitCode exit_code_of(const std::vector<GpuRow>& rows, bool need_all);
// Of one, what kept it from running is all there is to say: throws it.
void require_it_ran(const GpuRow& only);

}  // namespace stretto::cli

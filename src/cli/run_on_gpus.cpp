#include "cli/run_on_gpus.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "cli/diagnostics.h"
#include "cli/gpu_run.h"
#include "cli/gpus.h"
#include "cli/json.h"
#include "cli/prediction.h"
#include "cli/request.h"
#include "cli/table.h"
#include "core/text.h"
#include "cuda/device.h"
#include "cuda/plan_limits.h"
#include "cuda/shared_gpus.h"
#include "stretto/check.h"
#include "stretto/error.h"

namespace stretto::cli {
namespace {

constexpr size_t kDiagnosticsShown = 3;
constexpr size_t kLabelWidth = 12;

std::string explain(const GpuRow& row, const ExecutionOptions& options) {
  std::string out;
  const auto add = [&](const std::string& line) { out += "  " + wrap(line, 2); };
  for (size_t i = 0; i < row.by_seed.size(); ++i) {
    const runtime::GpuCheckResult& result = row.by_seed[i];
    if (result.verified()) continue;
    add(fmt::format("under seed {}:", options.emulate.seed + i));
    if (!result.fault.empty()) add(result.fault);
    if (result.wrong_elements > 0) {
      add(fmt::format("{} wrong elements; the first: {}", result.wrong_elements,
                      result.first_wrong));
    }
    break;
  }
  if (row.verified() && !row.reproducible() && row.must_reproduce) {
    add("runs on the same inputs, or the ranks of one all-reduce, gave different bits, though the "
        "schedule is deterministic");
  }
  return out + print_diagnostics(row.check, kDiagnosticsShown);
}

// Before a GPU is looked for: what no GPU can run.
void require_runnable(const Plan& plan, const std::string& file) {
  if (const auto reasons = cuda::why_not_on_cuda(plan); !reasons.empty()) {
    throw UsageError(fmt::format("{} cannot run on GPUs: {}", quote(file), join(reasons, "; ")));
  }
  if (const auto reasons = why_not_resident(plan, plan.sms); !reasons.empty()) {
    throw UsageError(fmt::format("{} could hang on GPUs: {}", quote(file), reasons.front()));
  }
}

void require_perfetto(const Request& request) {
  if (request.choices.size() > 1) {
    throw UsageError(
        "--perfetto writes one timeline; name one strategy, for example --strategy tiles");
  }
  if (request.file_plan ? request.file_plan->library_gemms
                        : request.choices.front().schedule.gemm == GemmBy::library) {
    throw UsageError(
        "--perfetto with gemm=library: cuBLAS's kernels do not tell when they do what; "
        "take a schedule with gemm=tiles");
  }
}

Request request_of(const Options& options, const ExecutionOptions& execution,
                   const OnGpus& on_gpus) {
  Request request = resolve(options, on_gpus);
  if (request.file_plan) {
    require_runnable(*request.file_plan, request.file_name);
  } else {
    refuse_what_no_gpu_runs(request.choices, request.planned, request.op.m, request.machine);
    require_served(request.choices, needs_all(options));
  }
  if (!execution.perfetto.empty()) require_perfetto(request);
  return request;
}

// What stands for the figures that ranks on shared GPUs do not have; empty where they have them.
std::string shared_note(const fabric::Fabric& gpus) {
  if (gpus.ranks_a_gpu() == 1) return "";
  return fmt::format(
      "{} ranks a GPU, {} SMs each: results are what they are, times mean nothing and are not "
      "taken",
      gpus.ranks_a_gpu(), sms_of(gpus));
}

// Where the ranks' common memory comes from, which nobody may have asked for.
std::string memory_note(fabric::Source source) {
  const char* meaning = "";
  switch (source) {
    case fabric::Source::peer:
      meaning = "the driver's, by peer access within this process";
      break;
    case fabric::Source::windows:
      meaning = "NCCL's";
      break;
    case fabric::Source::exported:
      meaning = "the driver's, exchanged as file descriptors";
      break;
  }
  return fmt::format("{}: {} (docs/fabric.md)", fabric::name_of(source), meaning);
}

int planned_sms(const Request& request) {
  return request.file_plan ? request.file_plan->sms : request.machine.sms;
}

std::optional<double> sequential_time(const std::vector<GpuRow>& rows) {
  for (const GpuRow& row : rows) {
    if (row.name == "sequential" && !row.times_us.empty()) return row.time_us();
  }
  return std::nullopt;
}

std::string print(const std::vector<GpuRow>& rows, const Request& request,
                  const ExecutionOptions& options, const std::string& gpu,
                  const std::string& shared_note, fabric::Source memory) {
  std::string out = fmt::format("{}\n{} x {}, plans for {} with {} SMs\n\n", to_string(request.op),
                                request.op.ranks, gpu, request.machine.name, planned_sms(request));
  Table table({"strategy", "verified", "same bits", "race-free", "time", "speed-up", "predicted"});
  table.add({"", "", "", "", "us", "x", "us"});
  const std::optional<double> sequential = sequential_time(rows);
  std::string details;
  bool whole = true;
  for (const GpuRow& row : rows) {
    if (!row.refused.empty()) {
      table.add_remark(row.name, "cannot serve this: " + join(row.refused, "; "));
      continue;
    }
    if (!row.fault.empty()) {
      table.add_remark(row.name, "failed: " + row.fault);
      continue;
    }
    const bool timed = !row.times_us.empty();
    table.add({row.name, row.check.clean() ? row.verified() ? "yes" : "NO" : "not run",
               row.by_seed.empty()  ? "-"
               : row.reproducible() ? "yes"
               : row.must_reproduce ? "NO"
                                    : "no",
               row.check.clean() ? "yes" : "NO", timed ? fmt::format("{:.1f}", row.time_us()) : "-",
               timed && sequential ? fmt::format("{:.2f}", *sequential / row.time_us()) : "-",
               row.simulation ? fmt::format("{:.1f}", row.simulation->total_us) : "-"});
    for (const auto& result : row.by_seed) whole = whole && result.whole;
    if (!row.good()) details += fmt::format("\n{}\n{}", row.name, explain(row, options));
  }
  out += table.print() + details + '\n';
  out += labelled("verified",
                  fmt::format("outputs of runs on fresh inputs, from poisoned buffers, with ranks "
                              "delayed at random: integers equal the plain reference, random data "
                              "lie within its error bound{}",
                              whole ? "" : " (in blocks of rows at the ends and at random places)"),
                  kLabelWidth);
  out += labelled("same bits",
                  fmt::format("{} launches of a captured graph gave the bits of the run before "
                              "it, and all ranks of an all-reduce the same",
                              options.replays),
                  kLabelWidth);
  const bool timed = shared_note.empty();
  out += timed
             ? labelled("time",
                        fmt::format("of a run, the longest rank's; median of {} graphs of {} runs "
                                    "each",
                                    GpuRun::kRounds, GpuRun::kRunsPerGraph),
                        kLabelWidth)
             : labelled("shared", shared_note, kLabelWidth);
  if (timed)
    out += labelled("speed-up", "over `sequential` on the same kernels, where it is in the list",
                    kLabelWidth);
  out += labelled("predicted",
                  fmt::format("simulated on {} (docs/simulation.md)", request.machine.name),
                  kLabelWidth);
  out += labelled("memory", memory_note(memory), kLabelWidth);
  if (rows.size() == 1) out += '\n' + labelled("schedule", rows.front().schedule, kLabelWidth);
  for (const GpuRow& row : rows) {
    if (!row.timeline.empty()) out += fmt::format("\n{}\n{}", row.name, row.timeline);
    if (!row.reason.empty()) out += labelled("auto", row.reason, kLabelWidth);
  }
  return out;
}

Json row_json(const GpuRow& row, const ExecutionOptions& options,
              std::optional<double> sequential) {
  Json json = {{"strategy", row.name}, {"schedule", row.schedule}, {"refused", row.refused}};
  if (!row.refused.empty()) return json;
  if (!row.reason.empty()) json["reason"] = row.reason;
  json["good"] = row.good();
  if (!row.fault.empty()) json["fault"] = row.fault;
  json["plan"] = row.counts;
  json["check"] = row.check_json;
  if (!row.fault.empty()) return json;
  Json seeds = Json::array();
  for (const auto& result : row.by_seed) {
    seeds.push_back({{"seed", options.emulate.seed + seeds.size()},
                     {"fault", result.fault},
                     {"verified", result.verified()},
                     {"wrong_elements", result.wrong_elements},
                     {"worst_error", result.worst_error},
                     {"first_wrong", result.first_wrong},
                     {"whole", result.whole},
                     {"reproducible", result.reproducible},
                     {"output_hash", fmt::format("{:016x}", result.output_hash)}});
  }
  json["cuda"] = {{"verified", row.verified()},
                  {"reproducible", row.reproducible()},
                  {"must_reproduce", row.must_reproduce},
                  {"seeds", std::move(seeds)}};
  if (!row.times_us.empty()) {
    json["cuda"]["time_us"] = row.time_us();
    json["cuda"]["times_us"] = row.times_us;
    json["cuda"]["speedup_over_sequential"] =
        sequential ? Json(*sequential / row.time_us()) : Json();
  }
  json["simulate"] = row.simulation ? prediction_json(*row.simulation, std::nullopt) : Json();
  return json;
}

}  // namespace

Outcome run_on_gpus(const Options& options, const ExecutionOptions& execution) {
  OnGpus on_gpus{.ranks_each = cuda::ranks_a_gpu(), .name = cuda::gpu_name()};
  Request request = request_of(options, execution, on_gpus);
  if (execution.timeline) cuda::require_own_gpus_for_times();
  const std::unique_ptr<fabric::Fabric> gpus = open_gpus(request.op.ranks);
  // Blocks of a plan all have an SM of their own. A file's plan is what it is.
  if (!request.file_plan && sms_of(*gpus) < request.machine.sms) {
    on_gpus.most_sms = sms_of(*gpus);
    request = request_of(options, execution, on_gpus);
  }
  const std::vector<GpuRow> rows = GpuRun(request, execution, *gpus).run();
  if (rows.size() == 1) require_it_ran(rows.front());
  const ExitCode code = exit_code_of(rows, needs_all(options));
  if (gpus->first_rank() != 0) return {"", code};
  const std::string gpu = gpus->device(0).name();
  if (!options.json) {
    return {print(rows, request, execution, gpu, shared_note(*gpus), gpus->source()), code};
  }
  Json object = json_header("run");
  object["good"] = code == kGood;
  object["operator"] = to_json(request.op);
  object["machine"] = request.machine.name;
  object["sms"] = planned_sms(request);
  object["target"] = "cuda";
  object["gpu"] = gpu;
  object["ranks_a_gpu"] = gpus->ranks_a_gpu();
  object["fabric"] = fabric::name_of(gpus->source());
  object["replays"] = execution.replays;
  object["results"] = Json::array();
  for (const GpuRow& row : rows) {
    object["results"].push_back(row_json(row, execution, sequential_time(rows)));
  }
  return {dump(object), code};
}

}  // namespace stretto::cli

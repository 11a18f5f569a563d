#include "cli/run_on_gpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/diagnostics.h"
#include "cli/gpu_timeline.h"
#include "cli/json.h"
#include "cli/prediction.h"
#include "cli/progress.h"
#include "cli/table.h"
#include "core/text.h"
#include "cuda/cublas.h"
#include "cuda/plan_limits.h"
#include "cuda/rank_program.h"
#include "cuda/shared_gpus.h"
#include "fabric/job.h"
#include "runtime/gpu_check.h"
#include "runtime/run_graphs.h"
#include "stretto/check.h"
#include "stretto/error.h"

namespace stretto::cli {
namespace {

constexpr size_t kDiagnosticsShown = 3;
constexpr size_t kLabelWidth = 12;
constexpr int kRunsPerGraph = 10;  // even: see PlanRunner::runs_per_graph()
constexpr int kRounds = 11;

struct Row {
  std::string name, schedule, reason;
  std::vector<std::string> refused;
  CheckReport check;
  Json check_json, counts;
  std::vector<runtime::GpuCheckResult> by_seed;
  std::vector<double> times_us;  // ascending
  std::optional<Simulation> simulation;
  std::string timeline;
  bool must_reproduce = false;

  bool verified() const {
    return std::all_of(by_seed.begin(), by_seed.end(), [](const auto& r) { return r.verified(); });
  }
  bool reproducible() const {
    return std::all_of(by_seed.begin(), by_seed.end(), [&](const auto& result) {
      return result.reproducible && result.output_hash == by_seed.front().output_hash;
    });
  }
  bool good() const { return check.clean() && verified() && (reproducible() || !must_reproduce); }
  double time_us() const { return times_us.empty() ? 0 : times_us[times_us.size() / 2]; }
};

class GpuRun {
 public:
  GpuRun(const Request& request, const ExecutionOptions& options)
      : request_(request), options_(options), fabric_(fabric::open_fabric(request.op.ranks)) {}

  std::string gpu() const { return fabric_->device(fabric_->first_rank()).name(); }

  // What stands for the figures that ranks on shared GPUs do not have; empty where they have them.
  std::string shared_note() const {
    if (!shares()) return "";
    const cuda::Device& device = fabric_->device(fabric_->first_rank());
    return fmt::format(
        "{} ranks a GPU, {} SMs each: results are what they are, times mean nothing "
        "and are not taken",
        device.ranks(), device.num_sms());
  }
  int ranks_a_gpu() const { return fabric_->ranks_a_gpu(); }

  // Whether this process is the one that speaks for all of a job.
  bool speaks() const { return fabric_->first_rank() == 0; }

  std::vector<Row> run() {
    std::vector<Row> rows;
    Progress progress;
    const double share = 1.0 / static_cast<double>(std::max<size_t>(1, request_.choices.size()));
    for_each_plan(request_, progress, [&](const NamedPlan& named) {
      rows.push_back(evaluate(named, progress, share * static_cast<double>(rows.size()), share));
    });
    return rows;
  }

 private:
  bool shares() const { return fabric_->ranks_a_gpu() > 1; }

  Row evaluate(const NamedPlan& named, Progress& progress, double done, double share) {
    Row row;
    row.name = named.name;
    if (named.choice != nullptr) {
      row.schedule = to_string(named.choice->schedule);
      row.reason = named.choice->reason;
      row.refused = named.choice->refused;
      row.must_reproduce = is_deterministic(named.choice->schedule);
    }
    if (named.plan == nullptr) return row;
    const Plan& plan = *named.plan;
    if (row.schedule.empty()) row.schedule = plan.schedule;
    if (auto reasons = cuda::why_not_on_cuda(plan); !reasons.empty()) {
      row.refused = std::move(reasons);
      return row;
    }
    if (plan.library_gemms && !cuda::why_no_cublas().empty()) {
      row.refused = {cuda::why_no_cublas()};
      return row;
    }
    if (shares()) {
      row.refused = cuda::why_not_shared(plan, cuda::programs_of(plan), fabric_->ranks_a_gpu());
      if (!row.refused.empty()) return row;
    }
    row.counts = plan_counts(plan);
    row.check = check(plan);
    row.check_json = to_json(row.check, plan);
    // A plan that is known to be wrong would only end in a deadline.
    if (!row.check.clean()) return row;
    row.simulation = simulate(plan, request_.machine);
    verify(row, named, progress, done, share);
    if (plan.library_gemms && !options_.perfetto.empty()) {
      throw UsageError(
          "--perfetto with gemm=library: cuBLAS's kernels do not tell when they do what; "
          "take a schedule with gemm=tiles");
    }
    if (row.verified() && options_.timeline) {
      row.timeline = plan.library_gemms
                         ? "no timeline: cuBLAS multiplies, and its kernels do not tell when\n"
                         : measure_timeline(plan, *fabric_, compiler_, options_.perfetto);
    }
    return row;
  }

  void verify(Row& row, const NamedPlan& named, Progress& progress, double done, double share) {
    progress.show("compiling kernels of " + row.name, done);
    runtime::RunnerOptions how;
    if (named.choice != nullptr) how.if_not_proposed = named.choice->if_not_proposed();
    runtime::PlanRunner runner(*named.plan, *fabric_, compiler_, how);
    if (const auto proposed = runner.too_few_proposed()) {
      const AutoSchedule first =
          with_first_algorithm({named.choice->schedule, row.reason}, *proposed);
      row.schedule = to_string(first.schedule);
      row.reason = first.reason;
    }
    for (int64_t seed = 0; seed < options_.num_seeds; ++seed) {
      runtime::GpuCheckOptions gpu;
      gpu.seed = options_.emulate.seed + static_cast<uint64_t>(seed);
      gpu.data_seed = options_.emulate.data_seed;
      gpu.reference = options_.emulate.reference;
      gpu.replays = options_.replays;
      if (options_.fill_given) gpu.fills = {options_.emulate.fill};
      if (options_.runs_given) gpu.runs = options_.emulate.runs;
      gpu.progress = [&](double part) {
        const double seeds = static_cast<double>(options_.num_seeds);
        progress.show("verifying " + row.name,
                      done + share * (static_cast<double>(seed) + part) / seeds);
      };
      row.by_seed.push_back(runtime::check_on_gpus(runner, *fabric_, gpu));
    }
    if (row.verified() && !shares()) time(row, runner);
  }

  void time(Row& row, runtime::PlanRunner& runner) {
    const runtime::RunGraphs graphs(runner, *fabric_, kRunsPerGraph);
    graphs.time_us();
    for (int round = 0; round < kRounds; ++round) row.times_us.push_back(graphs.time_us());
    std::sort(row.times_us.begin(), row.times_us.end());
  }

  const Request& request_;
  const ExecutionOptions& options_;
  std::unique_ptr<fabric::Fabric> fabric_;
  cuda::Compiler compiler_;
};

std::string explain(const Row& row, const ExecutionOptions& options) {
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

void require_some_served(const std::vector<Row>& rows) {
  const bool none =
      std::all_of(rows.begin(), rows.end(), [](const Row& row) { return !row.refused.empty(); });
  if (rows.empty() || !none) return;
  throw UsageError(fmt::format("{} cannot run on GPUs: {}", rows.front().name,
                               join(rows.front().refused, "; ")));
}

std::optional<double> sequential_time(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    if (row.name == "sequential" && !row.times_us.empty()) return row.time_us();
  }
  return std::nullopt;
}

std::string print(const std::vector<Row>& rows, const Request& request,
                  const ExecutionOptions& options, const std::string& gpu,
                  const std::string& shared_note) {
  std::string out = fmt::format("{}\n{} x {}, plans for {}\n\n", to_string(request.op),
                                request.op.ranks, gpu, request.machine.name);
  Table table({"strategy", "verified", "same bits", "race-free", "time", "speed-up", "predicted"});
  table.add({"", "", "", "", "us", "x", "us"});
  const std::optional<double> sequential = sequential_time(rows);
  std::string details;
  bool whole = true;
  for (const Row& row : rows) {
    if (!row.refused.empty()) {
      table.add_remark(row.name, "cannot serve this: " + join(row.refused, "; "));
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
                                    kRounds, kRunsPerGraph),
                        kLabelWidth)
             : labelled("shared", shared_note, kLabelWidth);
  if (timed)
    out += labelled("speed-up", "over `sequential` on the same kernels, where it is in the list",
                    kLabelWidth);
  out += labelled("predicted",
                  fmt::format("simulated on {} (docs/simulation.md)", request.machine.name),
                  kLabelWidth);
  if (rows.size() == 1) out += '\n' + labelled("schedule", rows.front().schedule, kLabelWidth);
  for (const Row& row : rows) {
    if (!row.timeline.empty()) out += fmt::format("\n{}\n{}", row.name, row.timeline);
    if (!row.reason.empty()) out += labelled("auto", row.reason, kLabelWidth);
  }
  return out;
}

Json row_json(const Row& row, const ExecutionOptions& options, std::optional<double> sequential) {
  Json json = {{"strategy", row.name}, {"schedule", row.schedule}, {"refused", row.refused}};
  if (!row.refused.empty()) return json;
  if (!row.reason.empty()) json["reason"] = row.reason;
  json["good"] = row.good();
  json["plan"] = row.counts;
  json["check"] = row.check_json;
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

Outcome run_on_gpus(const Request& request, const ExecutionOptions& options, bool json) {
  if (request.file_plan) require_runnable(*request.file_plan, request.file_name);
  if (request.choices.size() > 1 && !options.perfetto.empty()) {
    throw UsageError(
        "--perfetto writes one timeline; name one strategy, for example --strategy tiles");
  }
  if (options.timeline) cuda::require_own_gpus_for_times();
  GpuRun gpus(request, options);
  const std::vector<Row> rows = gpus.run();
  require_some_served(rows);
  const bool good = std::all_of(rows.begin(), rows.end(),
                                [](const Row& row) { return !row.refused.empty() || row.good(); });
  const ExitCode code = good ? kGood : kWrong;
  if (!gpus.speaks()) return {"", code};
  if (!json) return {print(rows, request, options, gpus.gpu(), gpus.shared_note()), code};
  Json object = json_header("run");
  object["good"] = good;
  object["operator"] = to_json(request.op);
  object["machine"] = request.machine.name;
  object["target"] = "cuda";
  object["gpu"] = gpus.gpu();
  object["ranks_a_gpu"] = gpus.ranks_a_gpu();
  object["replays"] = options.replays;
  object["results"] = Json::array();
  for (const Row& row : rows) {
    object["results"].push_back(row_json(row, options, sequential_time(rows)));
  }
  return {dump(object), code};
}

}  // namespace stretto::cli

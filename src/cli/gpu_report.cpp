#include "cli/gpu_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/diagnostics.h"
#include "cli/execution.h"
#include "cli/gpus.h"
#include "cli/prediction.h"
#include "cli/table.h"
#include "cli/terminal.h"
#include "core/text.h"

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
    } else if (!result.is_judged) {
      add(result.first_wrong);
    }
    break;
  }
  if (row.verified() && !row.reproducible() && row.must_reproduce) {
    add("runs on the same inputs, or the ranks of one all-reduce, gave different bits, though the "
        "schedule is deterministic");
  }
  return out + print_diagnostics(row.check, row.file, kDiagnosticsShown);
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
  return request.files.empty() ? request.machine.sms : request.files.front().plan.sms;
}

std::optional<double> sequential_time(const std::vector<GpuRow>& rows) {
  for (const GpuRow& row : rows) {
    if (row.name == "sequential" && !row.times_us.empty()) return row.time_us();
  }
  return std::nullopt;
}

// `whole`: all outputs were looked at in full.
std::string legend(const Request& request, const ExecutionOptions& options,
                   const fabric::Fabric& gpus, bool whole) {
  std::string out;
  const auto add = [&](std::string_view label, const std::string& text) {
    out += labelled(label, text, kLabelWidth);
  };
  add("verified",
      fmt::format("outputs of runs on fresh inputs, from poisoned buffers, with ranks delayed at "
                  "random: integers equal the plain reference, random data lie within its error "
                  "bound{}",
                  whole ? "" : " (in blocks of rows at the ends and at random places)"));
  add("same bits", fmt::format("{} launches of a captured graph gave the bits of the run before "
                               "it, and all ranks of an all-reduce the same",
                               options.replays));
  if (const std::string shared = shared_note(gpus); !shared.empty()) {
    add("shared", shared);
  } else {
    add("time", fmt::format("of a run, the longest rank's; median of {} graphs of {} runs each",
                            GpuRun::kRounds, GpuRun::kRunsPerGraph));
    add("speed-up", "over `sequential` on the same kernels, where it is in the list");
  }
  add("predicted", fmt::format("simulated on {} (docs/simulation.md)", request.machine.name));
  add("memory", memory_note(gpus.source()));
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
                     {"bad_ids", result.bad_ids},
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

std::string print(const std::vector<GpuRow>& rows, const Request& request,
                  const ExecutionOptions& options, const fabric::Fabric& gpus) {
  std::string out = fmt::format("{}\n{} x {}, plans for {} with {} SMs\n\n", to_string(request.op),
                                request.op.ranks, gpus.device(0).name(), request.machine.name,
                                planned_sms(request));
  Table table({"strategy", "verified", "same bits", "race-free", "time", "speed-up", "predicted"});
  table.add({"", "", "", "", "us", "x", "us"});
  const std::optional<double> sequential = sequential_time(rows);
  std::string details;
  bool whole = true;
  uint64_t bad_ids = 0;
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
    table.add({row.name, row.check.clean() ? verdict(row.verified()) : "not run",
               row.by_seed.empty()  ? "-"
               : row.reproducible() ? verdict(true)
               : row.must_reproduce ? verdict(false)
                                    : "no",
               verdict(row.check.clean()), timed ? fmt::format("{:.1f}", row.time_us()) : "-",
               timed && sequential ? fmt::format("{:.2f}", *sequential / row.time_us()) : "-",
               row.simulation ? fmt::format("{:.1f}", row.simulation->total_us) : "-"});
    for (const auto& result : row.by_seed) {
      whole = whole && result.whole;
      bad_ids = std::max(bad_ids, result.bad_ids);
    }
    if (!row.good()) details += fmt::format("\n{}\n{}", row.name, explain(row, options));
  }
  out += table.print() + details + '\n';
  out += legend(request, options, gpus, whole);
  out += bad_ids_note(request.op, bad_ids, kLabelWidth);
  if (rows.size() == 1) out += '\n' + labelled("schedule", rows.front().schedule, kLabelWidth);
  for (const GpuRow& row : rows) {
    if (!row.timeline.empty()) out += fmt::format("\n{}\n{}", row.name, row.timeline);
    if (!row.reason.empty()) out += labelled(row.name, row.reason, kLabelWidth);
  }
  return out;
}

Json to_json(const std::vector<GpuRow>& rows, const Request& request,
             const ExecutionOptions& options, const fabric::Fabric& gpus, bool good) {
  Json object = json_header("run");
  object["good"] = good;
  object["operator"] = to_json(request.op);
  object["machine"] = request.machine.name;
  object["sms"] = planned_sms(request);
  object["target"] = "cuda";
  object["gpu"] = gpus.device(0).name();
  object["ranks_a_gpu"] = gpus.ranks_a_gpu();
  object["fabric"] = fabric::name_of(gpus.source());
  object["replays"] = options.replays;
  object["results"] = Json::array();
  for (const GpuRow& row : rows) {
    object["results"].push_back(row_json(row, options, sequential_time(rows)));
  }
  return object;
}

}  // namespace stretto::cli

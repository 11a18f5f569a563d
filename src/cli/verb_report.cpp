// stretto report: all that is known of some schedules, as one page or a picture.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/json.h"
#include "cli/prediction.h"
#include "cli/progress.h"
#include "cli/request.h"
#include "cli/verb.h"
#include "core/file.h"
#include "core/text.h"
#include "schedule/short_text.h"
#include "stretto/check.h"
#include "stretto/error.h"
#include "stretto/report.h"
#include "stretto/tune.h"
#include "tune/weighed.h"

namespace stretto::cli {
namespace {

constexpr size_t kMaxTraceBytes = size_t{1} << 30;

struct Trace {
  std::string file;
  TracedRun run;
  bool is_used = false;
};

std::vector<Trace> read_traces(const Options& options) {
  std::vector<Trace> traces;
  if (options.measured.empty()) return traces;
  for (const std::string_view name : split(options.measured, ',')) {
    const std::string file(name);
    refuse_overwriting(options, file);
    TracedRun run = read_perfetto(read_file(file, kMaxTraceBytes), quote(file, 200));
    if (!run.is_measured) {
      throw UsageError(fmt::format(
          "{} is a prediction; take a trace that stretto run --target cuda --perfetto wrote",
          quote(file, 200)));
    }
    traces.push_back({file, std::move(run)});
  }
  return traces;
}

// What the tuning files say of this very schedule, or a trace does.
MeasuredRun measured_of(const NamedPlan& named, const Request& request, const Tuning& tuning,
                        std::vector<Trace>& traces) {
  const Plan& plan = *named.plan;
  MeasuredRun measured;
  for (Trace& trace : traces) {
    const TracedRun& run = trace.run;
    if (run.schedule != plan.schedule || run.operator_text != to_string(plan.op)) continue;
    require_same(run, plan, trace.file);
    trace.is_used = true;
    measured.timeline = run.timeline;
    measured.us = run.timeline.total_us;
    measured.source = fmt::format("{}, a run with time stamps, which cost time themselves",
                                  in_one_line(trace.file));
  }
  const Segment* const product = request.op.only_product();
  // A file's plan may be another than its schedule's text makes.
  if (product == nullptr || named.file != nullptr || !(request.op == request.planned)) {
    return measured;
  }
  for (const TunedOperator& tuned : tuning.operators()) {
    if (!(tuned.op == *product) || tuned.machine != request.machine.name) continue;
    for (const Measured& one : tuned.measured) {
      if (one.schedule != plan.schedule) continue;
      measured.us = one.time_us;
      measured.source = fmt::format("median of runs back to back, tuning file{}",
                                    tuned.date.empty() ? "" : ", " + tuned.date);
    }
  }
  return measured;
}

// Of every product its own.
std::vector<Weighed> weigh(const Request& request, const Choice& choice, const Tuning& tuning) {
  std::vector<Weighed> weighed;
  size_t number = 0;
  for (const OperatorSegment& segment : request.planned.segments) {
    if (!segment.product) continue;
    const Segment& op = *segment.product;
    const bool is_only = request.planned.only_product() != nullptr;
    const auto& chosen = choice.schedule.products;
    bool is_marked = false;
    for (const WeighedSchedule& one : weighed_schedules(op, request.machine, tuning)) {
      const bool is_chosen = !is_marked && number < chosen.size() && one.schedule == chosen[number];
      is_marked |= is_chosen;
      weighed.push_back({is_only ? "" : segment.name, short_text(one.schedule, op, request.machine),
                         one.us, one.is_measured, is_chosen});
    }
    ++number;
  }
  return weighed;
}

Json row_json(const NamedPlan& named, const Simulation& simulation, const CheckReport& verdict,
              const MeasuredRun& measured, std::optional<double> sequential) {
  Json json = {{"plan", plan_counts(*named.plan)},
               {"check", to_json(verdict, *named.plan, named.lines())},
               {"simulate", prediction_json(simulation, sequential)}};
  json["measured_us"] = measured.us ? Json(*measured.us) : Json();
  return json;
}

Outcome run(const Options& options) {
  if (options.output.empty() && !options.json) {
    throw UsageError(options.svg ? "a picture is a file: -o timelines.svg"
                                 : "a report is a file: -o report.html, then open it in a browser");
  }
  if (options.svg && !options.measured.empty()) {
    throw UsageError("--svg draws predictions only: leave --measured out");
  }
  if (options.svg && options.json) {
    throw UsageError("--svg and --json are two results; leave one out");
  }
  const Request request = resolve(options);
  std::vector<Trace> traces = read_traces(options);
  const std::optional<double> sequential = sequential_us(request);
  const Tuning tuning = load_tuning();
  HtmlReport report(request.op, request.machine);
  TimelinePicture picture(to_string(request.op));
  if (sequential) report.set_sequential_us(*sequential);
  Json json = json_header("report");
  json["operator"] = to_json(request.op);
  json["machine"] = request.machine.name;
  json["results"] = Json::array();
  Progress progress;
  size_t done = 0;
  const double share = 1.0 / static_cast<double>(request.num_plans() + 1);
  for_each_plan(request, progress, [&](const NamedPlan& named) {
    const double begin = share * static_cast<double>(done++);
    PlanRow row;
    row.describe(named);
    Json row_of_json = {{"strategy", row.name}, {"schedule", row.schedule}};
    row_of_json["refused"] = row.refused;
    if (named.plan == nullptr) {
      report.add_refused(row.name, row.refused);
      json["results"].push_back(std::move(row_of_json));
      return;
    }
    const Plan& plan = *named.plan;
    progress.show("simulating " + row.name, begin);
    const Simulation simulation = predict(named, request.machine);
    const MeasuredRun measured = measured_of(named, request, tuning, traces);
    if (options.svg) return picture.add(row.name, plan, simulation);
    progress.show("checking " + row.name, begin + share / 3);
    const CheckReport verdict = check(plan, named.check_options());
    if (!row.reason.empty()) row_of_json["reason"] = row.reason;
    if (options.json) {
      row_of_json.update(row_json(named, simulation, verdict, measured, sequential));
      json["results"].push_back(std::move(row_of_json));
      return;
    }
    progress.show("packing " + row.name, begin + share / 1.5);
    // A file's lines are those of all its rows.
    const bool as_read = named.file != nullptr && options.rows.empty();
    const std::string text = as_read ? read_file(named.file->path, SIZE_MAX) : "";
    report.add({row.name, row.reason}, plan, simulation, verdict, measured,
               as_read ? std::optional(HtmlReport::PlanText{text, named.lines()}) : std::nullopt);
  });
  for (const Trace& trace : traces) {
    if (trace.is_used) continue;
    throw UsageError(fmt::format("{} is of {} by {}: name that schedule, too",
                                 quote(trace.file, 200), quote(trace.run.operator_text, 100),
                                 quote(trace.run.schedule, 400)));
  }
  if (options.json) return {dump(json), kGood};
  if (options.svg) return {picture.finish(), kGood};
  for (const Choice& choice : request.choices) {
    if (choice.name != "auto" || !options.rows.empty()) continue;
    progress.show("asking what auto weighed", 1 - share);
    report.set_weighed(weigh(request, choice, tuning));
  }
  progress.show("writing the report", 1 - share / 2);
  return {report.finish(), kGood};
}

}  // namespace

Verb report_verb() {
  return {"report", "Write a page on schedules: timelines, verdicts, plans",
          [](CLI::App& app, Options& options) {
            add_subject(app, options);
            const char* group = "Report";
            add_option(app, "--measured", options.measured,
                       "Traces that `run --target cuda --perfetto` wrote, comma separated", "FILES",
                       group);
            add_flag(app, "--svg", options.svg, "Draw the timelines only, as a picture", group);
          },
          run,
          "stretto report mlp m=4096 h=8192 f=28672 --strategy sequential,tiles -o report.html"};
}

}  // namespace stretto::cli

// stretto simulate: predicts when every instruction runs on a machine.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <nlohmann/json.hpp>

#include "cli/json.h"
#include "cli/prediction.h"
#include "cli/progress.h"
#include "cli/request.h"
#include "cli/table.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "core/file.h"
#include "core/parallel.h"
#include "core/text.h"
#include "stretto/check.h"
#include "stretto/error.h"
#include "stretto/perfetto.h"
#include "stretto/simulate.h"

namespace stretto::cli {
namespace {

constexpr size_t kLabelWidth = 12;
constexpr size_t kCriticalStepsShown = 40;

struct Row {
  std::string name;
  std::string schedule;
  std::vector<std::string> refused;
  Simulation simulation;
  std::string timeline, critical_path;
  std::string reason;    // as of a Choice
  Json counts, details;  // of the plan, and of its lanes
};

Json result_json(const Row& row, std::optional<double> sequential) {
  if (!row.refused.empty()) return {{"strategy", row.name}, {"refused", row.refused}};
  Json json = {{"strategy", row.name},
               {"schedule", row.schedule},
               {"refused", Json::array()},
               {"plan", row.counts},
               {"simulate", prediction_json(row.simulation, sequential)}};
  if (!row.reason.empty()) json["reason"] = row.reason;
  json["simulate"].update(row.details);
  return json;
}

// `sequential`, which speed-ups are over, may be one of the plans.
bool is_among_plans(const std::string& schedule, const Request& request) {
  return request.files.empty() &&
         std::any_of(request.choices.begin(), request.choices.end(), [&](const Choice& choice) {
           return choice.refused.empty() && to_string(choice.schedule) == schedule;
         });
}

std::string where(const Plan& plan, const PlanLines* lines, const InstrRef& ref) {
  const Lane& lane = plan.lanes[ref.lane];
  const Instr& instr = lane.instrs[ref.pos];
  std::string what = fmt::format("{} {}", describe(lane), to_string(instr.op));
  if (instr.tile >= 0) what += fmt::format(" tile {}", instr.tile);
  if (lines != nullptr) what += fmt::format(", line {}", lines->of(ref));
  return what;
}

std::string print_critical_path(const Plan& plan, const PlanLines* lines,
                                const Simulation& simulation) {
  Table table({"critical path, last first", "start", "took", "because of"});
  size_t shown = 0;
  for (const CriticalStep& step : simulation.critical_path) {
    if (shown++ == kCriticalStepsShown) break;
    table.add({where(plan, lines, step.where), fmt::format("{:.1f} us", step.start_us),
               fmt::format("{:.1f} us", step.end_us - step.start_us), step.why});
  }
  std::string out = table.print();
  if (shown < simulation.critical_path.size()) {
    out += fmt::format("... and {} earlier steps\n", simulation.critical_path.size() - shown);
  }
  return out;
}

Json details_json(const Plan& plan, const PlanLines* lines, const Simulation& simulation) {
  Json lanes = Json::array(), path = Json::array();
  for (const LaneUse& use : simulation.lanes) {
    lanes.push_back({{"lane", describe(plan.lanes[use.lane])},
                     {"busy_us", use.busy_us},
                     {"waiting_us", use.waiting_us}});
  }
  for (const CriticalStep& step : simulation.critical_path) {
    path.push_back(to_json(step.where, plan, lines));
    path.back().update({{"start_us", step.start_us}, {"end_us", step.end_us}, {"why", step.why}});
  }
  return {{"lanes", std::move(lanes)}, {"critical_path", std::move(path)}};
}

// A time says nothing of whether a plan is right. Plans of operators are; those from files may not
// be.
std::string warnings_of(const std::vector<PlanFile>& files) {
  std::string out;
  for (const PlanFile& file : files) {
    const CheckReport report = check(file.plan, {.has_whole_plan = file.whole != nullptr});
    if (report.clean()) continue;
    const size_t count = report.diagnostics.size();
    out += paint(Style::bad, "not proved") +
           fmt::format(": stretto check finds {}{} problem{} in {}\n",
                       report.truncated ? "at least " : "", count, count == 1 ? "" : "s",
                       files.size() == 1 ? "this plan" : file.name);
  }
  return out;
}

// A preset that cannot be had somewhere may be another one there. What a file says of its schedule
// is but a text.
std::string alike(const std::vector<Row>& rows, const Request& request) {
  std::string out;
  if (!request.files.empty()) return out;
  for (size_t i = 1; i < rows.size(); ++i) {
    const auto same =
        std::find_if(rows.begin(), rows.begin() + static_cast<long>(i),
                     [&](const Row& row) { return row.schedule == rows[i].schedule; });
    if (!rows[i].refused.empty() || same == rows.begin() + static_cast<long>(i)) continue;
    out += wrap(fmt::format("{} is the same schedule as {} here", rows[i].name, same->name), 2);
  }
  return out;
}

std::string print(const std::vector<Row>& rows, const Request& request,
                  std::optional<double> sequential, const std::string& chart, bool with_legend) {
  std::string out = fmt::format("{}\nmachine {}: {}\n\n", to_string(request.op),
                                request.machine.name, request.machine.description);
  Table table(joined({"strategy"}, prediction_header()));
  table.add(joined({""}, prediction_units()));
  std::string charts;
  for (const Row& row : rows) {
    if (!row.refused.empty()) {
      table.add_remark(row.name, "cannot serve this: " + join(row.refused, "; "));
      continue;
    }
    table.add(joined({row.name}, prediction_cells(row.simulation, sequential)));
    if (!row.timeline.empty()) charts += '\n' + row.timeline;
    if (!row.critical_path.empty()) charts += '\n' + row.critical_path;
  }
  out += table.print() + alike(rows, request) + charts;
  if (!chart.empty()) out += '\n' + chart;
  if (const std::string warnings = warnings_of(request.files); !warnings.empty()) {
    out += '\n' + warnings;
  }
  if (!with_legend) return out;
  out += '\n' + prediction_legend(request.machine, kLabelWidth);
  if (rows.size() > 1 && chart.empty()) {
    out += labelled("--chart", "draws their timelines below one another", kLabelWidth);
  }
  return out;
}

Outcome run(const Options& options) {
  const int width = static_cast<int>(
      whole_number("--width", options.width, terminal_columns(), kLeastColumns, kMostColumns));
  const int show_ranks =
      static_cast<int>(whole_number("--show-ranks", options.show_ranks, 2, 0, kMaxRanks));
  // Of several charts the first rank's are enough, unless more are asked for.
  const int several_show_ranks = options.show_ranks.empty() ? 1 : std::max(1, show_ranks);
  const Request request = resolve(options);
  say_why(request.choices, request.planned, request.machine);
  const bool single = request.num_plans() == 1;
  // Charts and traces have the plans in their order.
  const bool in_turn = options.chart || !options.perfetto.empty();
  std::vector<Row> rows(request.num_plans());
  std::atomic<size_t> done = 0;
  Charts charts;
  PerfettoTrace trace({.machine = request.machine.name});
  Progress progress;
  const auto simulate_plan = [&](const NamedPlan& named) {
    progress.show("simulating " + named.name,
                  static_cast<double>(done++) / static_cast<double>(rows.size()));
    Row& row = rows[named.at];
    row.name = named.name;
    if (named.plan == nullptr) {
      row.refused = named.choice->refused;
      return;
    }
    const Plan& plan = *named.plan;
    row.simulation = predict(named, request.machine);
    row.schedule = plan.schedule;
    if (single && show_ranks > 0) {
      row.timeline = draw_timeline(plan, row.simulation, width, show_ranks, is_ascii_terminal());
    }
    if (!single && options.chart) charts.add(named.name, plan, row.simulation);
    if (options.critical_path)
      row.critical_path = print_critical_path(plan, named.lines(), row.simulation);
    row.reason = named.reason();
    row.counts = plan_counts(plan);
    if (options.json) row.details = details_json(plan, named.lines(), row.simulation);
    if (!options.perfetto.empty()) {
      trace.add(plan, row.simulation, named.lines(), single ? "" : named.name);
    }
  };
  // Beside the plans, where there is a core for it: it may take as long as they do.
  const std::string schedule =
      to_string(schedule_of(find_preset("sequential"), request.op, request.machine));
  const bool is_among = is_among_plans(schedule, request);
  std::optional<double> sequential;
  std::exception_ptr failure;
  for_each_in_parallel(is_among ? 1 : 2, 2, [&](size_t i) {
    if (i == 0) {
      for_each_plan(request, progress, simulate_plan, in_turn ? 1 : kMostPlansAtOnce);
    } else {
      try {
        sequential = sequential_us(request);
      } catch (...) {  // what is wrong with the plans is said first
        failure = std::current_exception();
      }
    }
  });
  if (failure) std::rethrow_exception(failure);
  for (const Row& row : rows) {
    if (is_among && row.refused.empty() && row.schedule == schedule) {
      sequential = row.simulation.total_us;
    }
  }
  if (!options.perfetto.empty()) write_file(options.perfetto, trace.finish());
  if (!options.json) {
    const std::string chart =
        charts.empty() ? "" : charts.draw(width, several_show_ranks, is_ascii_terminal());
    return {print(rows, request, sequential, chart, !options.no_legend), kGood};
  }

  Json json = json_header("simulate");
  json["operator"] = to_json(request.op);
  json["machine"] = request.machine.name;
  json["results"] = Json::array();
  for (const Row& row : rows) json["results"].push_back(result_json(row, sequential));
  return {dump(json), kGood};
}

}  // namespace

Verb simulate_verb() {
  return {"simulate", "Predict the timeline on a machine, and draw it",
          [](CLI::App& app, Options& options) {
            add_subject(app, options);
            add_timeline(app, options);
          },
          run,
          "stretto simulate gemm-rs --m 8192 --n 8192 --k 28672 --strategy tiles --critical-path"};
}

}  // namespace stretto::cli

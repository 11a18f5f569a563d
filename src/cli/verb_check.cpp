// stretto check: proves a plan free of races and deadlocks, or says what is wrong.
#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "cli/diagnostics.h"
#include "cli/json.h"
#include "cli/progress.h"
#include "cli/request.h"
#include "cli/table.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "core/text.h"
#include "stretto/check.h"

namespace stretto::cli {
namespace {

// One row a plan; what is wrong with it, below the table.
struct Verdicts {
  Table table{{"strategy", "verdict", "tasks", "waits", "notifies", "accesses proved", "runs"}};
  std::string problems;

  void add(const std::string& name, const CheckReport& report, const PlanFile* file) {
    const size_t count = report.diagnostics.size();
    const std::string clean = report.no_program.empty() ? "clean" : "clean, no program";
    const std::string verdict =
        report.clean()
            ? paint(Style::good, clean)
            : paint(Style::bad, fmt::format("{}{} problem{}", count, report.truncated ? "+" : "",
                                            count == 1 ? "" : "s"));
    table.add({name, verdict, std::to_string(report.tasks), std::to_string(report.waits),
               std::to_string(report.notifies), std::to_string(report.pairs_proved),
               std::to_string(report.epochs)});
    if (report.clean() && !report.no_program.empty()) {
      problems +=
          "\n" +
          wrap(fmt::format("{}: GPUs have no program for it: {}", name, report.no_program), 0);
    }
    if (report.clean()) return;
    problems += fmt::format("\n{}\n", name) +
                print_diagnostics(report, file, std::numeric_limits<size_t>::max());
  }
};

Outcome run(const Options& options) {
  const Request request = resolve(options);
  say_why(request.choices, request.planned, request.machine);
  Verdicts verdicts;
  Json results = Json::array();
  bool clean = true;
  const auto tell = [&](const std::string& name, const Plan& plan, const CheckReport& report,
                        const PlanFile* file, const std::string& reason) {
    clean &= report.clean();
    verdicts.add(name, report, file);
    results.push_back({{"strategy", name},
                       {"schedule", plan.schedule},
                       {"refused", Json::array()},
                       {"plan", plan_counts(plan)},
                       {"check", to_json(report, plan, file == nullptr ? nullptr : &file->lines)}});
    if (!reason.empty()) results.back()["reason"] = reason;
  };
  {
    Progress progress;
    for_each_plan(request, progress, [&](const NamedPlan& named) {
      progress.show("checking " + named.name,
                    static_cast<double>(results.size()) / static_cast<double>(request.num_plans()));
      if (named.plan == nullptr) {
        verdicts.table.add_remark(named.name,
                                  "cannot serve this: " + join(named.choice->refused, "; "));
        results.push_back({{"strategy", named.name}, {"refused", named.choice->refused}});
        return;
      }
      CheckReport report = check(*named.plan);
      if (named.whole == nullptr) {
        return tell(named.name, *named.plan, report, named.file, named.reason());
      }
      // What ranks enqueue for a run of fewer rows is the program of the whole plan.
      const CheckReport whole = check(*named.whole);
      if (report.clean()) report.no_program = whole.no_program;
      tell(named.name, *named.plan, report, named.file, named.reason());
      if (whole.clean()) return;
      tell(fmt::format("{}, all {} rows", named.name, named.whole->op.rows()), *named.whole, whole,
           named.file == nullptr ? nullptr : named.file->whole.get(), "");
    });
  }
  const ExitCode code = clean ? kGood : kWrong;
  if (!options.json) return {verdicts.table.print() + verdicts.problems, code};
  Json json = json_header("check");
  json["clean"] = clean;
  json["operator"] = to_json(request.op);
  json["results"] = std::move(results);
  return {dump(json), code};
}

}  // namespace

Verb check_verb() {
  return {"check", "Prove a plan free of races and deadlocks, or say what is wrong", add_subject,
          run, "stretto check gemm-ar --m 2048 --n 1024 --k 4096 --ranks 8 --strategy all"};
}

}  // namespace stretto::cli

// stretto check: proves a plan free of races and deadlocks, or says what is wrong.
#include <fmt/format.h>

#include <atomic>
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

// Of one plan, or why there is none.
struct Verdict {
  std::string name;
  std::string refused;  // empty: there is a plan
  CheckReport report;
  const PlanFile* file = nullptr;
  Json json;
  std::string alone = {};  // of a run whose whole plan nobody has: what was proved instead

  bool good() const { return !refused.empty() || report.clean(); }
};

Verdict refused(const NamedPlan& named) {
  const std::vector<std::string>& why = named.choice->refused;
  Json json = {{"strategy", named.name}, {"refused", why}};
  return {named.name, "cannot serve this: " + join(why, "; "), {}, nullptr, std::move(json)};
}

Verdict judged(const std::string& name, const Plan& plan, CheckReport report, const PlanFile* file,
               const std::string& reason) {
  Json json = {{"strategy", name},
               {"schedule", plan.schedule},
               {"refused", Json::array()},
               {"plan", plan_counts(plan)},
               {"check", to_json(report, plan, file == nullptr ? nullptr : &file->lines)}};
  if (!reason.empty()) json["reason"] = reason;
  return {name, "", std::move(report), file, std::move(json)};
}

// A file may say that its plan is a run of fewer rows, which needs no more than a line.
std::string why_alone(const NamedPlan& named) {
  const Plan& plan = *named.plan;
  if (plan.run_of == 0 || named.whole != nullptr) return "";
  return fmt::format(
      "it says that it is a run of a plan for {} rows, and is proved as if ranks enqueued it "
      "alone; they enqueue that plan's program, which stretto check of that plan proves with "
      "--rows {}",
      plan.run_of, plan.op.rows());
}

// What ranks enqueue for a run of fewer rows is the program of the whole plan: that is judged too,
// and has a verdict of its own where something is wrong with it.
std::vector<Verdict> verdicts_of(const NamedPlan& named) {
  if (named.plan == nullptr) return {refused(named)};
  CheckReport report = check(*named.plan, named.check_options()), whole;
  if (named.whole != nullptr) {
    whole = check(*named.whole);
    if (report.clean()) report.no_program = whole.no_program;
  }
  std::vector<Verdict> verdicts = {
      judged(named.name, *named.plan, std::move(report), named.file, named.reason())};
  verdicts[0].alone = why_alone(named);
  if (!verdicts[0].alone.empty()) verdicts[0].json["enqueued_alone"] = verdicts[0].alone;
  if (!whole.clean()) {
    verdicts.push_back(judged(fmt::format("{}, all {} rows", named.name, named.whole->op.rows()),
                              *named.whole, std::move(whole),
                              named.file == nullptr ? nullptr : named.file->whole.get(), ""));
  }
  return verdicts;
}

// One row a plan; what is wrong with it, below the table.
struct Page {
  Table table{{"strategy", "verdict", "tasks", "waits", "notifies", "accesses proved", "runs"}};
  std::string problems;

  void add(const Verdict& verdict) {
    if (!verdict.refused.empty()) return table.add_remark(verdict.name, verdict.refused);
    const CheckReport& report = verdict.report;
    const size_t count = report.diagnostics.size();
    const std::string clean = !report.no_program.empty() ? "clean, no program"
                              : !verdict.alone.empty()   ? "clean, enqueued alone"
                                                         : "clean";
    const std::string word =
        report.clean()
            ? paint(Style::good, clean)
            : paint(Style::bad, fmt::format("{}{} problem{}", count, report.truncated ? "+" : "",
                                            count == 1 ? "" : "s"));
    table.add({verdict.name, word, std::to_string(report.tasks), std::to_string(report.waits),
               std::to_string(report.notifies), std::to_string(report.pairs_proved),
               std::to_string(report.epochs)});
    if (report.clean() && !report.no_program.empty()) {
      problems += "\n" + wrap(fmt::format("{}: GPUs have no program for it: {}", verdict.name,
                                          report.no_program),
                              0);
    }
    if (!verdict.alone.empty()) {
      problems += "\n" + wrap(fmt::format("{}: {}", verdict.name, verdict.alone), 0);
    }
    if (report.clean()) return;
    problems += fmt::format("\n{}\n", verdict.name) +
                print_diagnostics(report, verdict.file, std::numeric_limits<size_t>::max());
  }
};

Outcome run(const Options& options) {
  const Request request = resolve(options);
  say_why(request.choices, request.planned, request.machine);
  std::vector<std::vector<Verdict>> by_plan(request.num_plans());
  {
    Progress progress;
    std::atomic<size_t> done = 0;
    for_each_plan(
        request, progress,
        [&](const NamedPlan& named) {
          progress.show("checking " + named.name,
                        static_cast<double>(done) / static_cast<double>(by_plan.size()));
          by_plan[named.at] = verdicts_of(named);
          ++done;
        },
        kMostPlansAtOnce);
  }
  Page page;
  Json results = Json::array();
  bool clean = true;
  for (std::vector<Verdict>& verdicts : by_plan) {
    for (Verdict& verdict : verdicts) {
      clean &= verdict.good();
      page.add(verdict);
      results.push_back(std::move(verdict.json));
    }
  }
  const ExitCode code = clean ? kGood : kWrong;
  if (!options.json) return {page.table.print() + page.problems, code};
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

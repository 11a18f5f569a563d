// stretto check: proves a plan free of races and deadlocks, or says what is wrong.
#include <fmt/format.h>

#include <limits>

#include "cli/diagnostics.h"
#include "cli/json.h"
#include "cli/progress.h"
#include "cli/request.h"
#include "cli/table.h"
#include "cli/verb.h"
#include "core/text.h"
#include "stretto/check.h"

namespace stretto::cli {
namespace {

std::string verdict(const NamedPlan& named, const CheckReport& report) {
  if (!report.clean()) {
    const size_t count = report.diagnostics.size();
    return fmt::format("{}: {}{} problem{}\n", named.name, count,
                       report.truncated ? " or more" : "", count == 1 ? "" : "s") +
           print_diagnostics(report, std::numeric_limits<size_t>::max());
  }
  return fmt::format(
      "{}: clean; {} tasks, {} waits, {} notifies, {} dependent accesses proved ordered in {} "
      "runs\n",
      named.name, report.tasks, report.waits, report.notifies, report.pairs_proved, report.epochs);
}

Outcome run(const Options& options) {
  const Request request = resolve(options);
  std::string text;
  Json results = Json::array();
  bool clean = true;
  {
    Progress progress;
    for_each_plan(request, [&](const NamedPlan& named) {
      progress.show("checking " + named.name,
                    static_cast<double>(results.size()) /
                        static_cast<double>(std::max<size_t>(1, request.choices.size())));
      if (named.plan == nullptr) {
        text += fmt::format("{}: ", named.name) +
                wrap("cannot serve this: " + join(named.choice->refused, "; "), 2);
        results.push_back({{"strategy", named.name}, {"refused", named.choice->refused}});
        return;
      }
      const CheckReport report = check(*named.plan);
      clean &= report.clean();
      text += verdict(named, report);
      results.push_back({{"strategy", named.name},
                         {"schedule", named.plan->schedule},
                         {"refused", Json::array()},
                         {"plan", plan_counts(*named.plan)},
                         {"check", to_json(report, *named.plan)}});
    });
  }
  const ExitCode code = clean ? kGood : kWrong;
  if (!options.json) return {text, code};
  Json json = json_header("check");
  json["clean"] = clean;
  json["operator"] = to_json(request.op);
  json["results"] = std::move(results);
  return {dump(json), code};
}

}  // namespace

Verb check_verb() {
  return {"check", "Prove a plan free of races and deadlocks, or say what is wrong", add_subject,
          run};
}

}  // namespace stretto::cli

// stretto plan: prints the program of every rank; of a file, what was read from it.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/json.h"
#include "cli/progress.h"
#include "cli/request.h"
#include "cli/verb.h"
#include "core/text.h"
#include "stretto/error.h"
#include "stretto/lower.h"

namespace stretto::cli {
namespace {

std::string plan_after(const Request& request, const std::string& step) {
  std::vector<std::string_view> known;
  for (const LowerStep& row : lower_steps()) known.push_back(row.name);
  if (std::find(known.begin(), known.end(), step) == known.end()) {
    throw UsageError(unknown_word("step", step, known));
  }
  if (request.file) {
    throw UsageError("--dump-after needs an operator to lower; a plan file is lowered already");
  }
  std::string text;
  lower(request.planned, request.choices.front().schedule, request.machine,
        [&](const LowerStep& row, const Draft& draft) {
          if (row.name == step) text = print(draft.plan);
        });
  return text;
}

Outcome run(const Options& options) {
  const Request request = resolve(options);
  say_what_auto_chose(request.choices, request.planned, request.machine);
  if (request.choices.size() > 1) {
    throw UsageError(
        "stretto plan prints one plan; name one strategy, for example --strategy tiles");
  }
  Json json = json_header("plan");
  std::string text;
  Progress progress;
  for_each_plan(request, progress, [&](const NamedPlan& named) {
    text =
        options.dump_after.empty() ? print(*named.plan) : plan_after(request, options.dump_after);
    json["operator"] = to_json(request.op);
    json["machine"] = request.machine.name;
    json["strategy"] = named.name;
    json["schedule"] = named.plan->schedule;
    json["plan"] = plan_counts(*named.plan);
  });
  if (!options.json) return {text, kGood};
  json["text"] = text;
  return {dump(json), kGood};
}

}  // namespace

Verb plan_verb() {
  return {
      "plan", "Print a plan: buffers, signals, and the lanes of every rank",
      [](CLI::App& app, Options& options) {
        add_subject(app, options);
        add_option(app, "--dump-after", options.dump_after,
                   "The plan as this step of lowering leaves it; a wrong name lists all", "STEP");
      },
      run, "stretto plan gemm-rs --m 512 --n 512 --k 512 --ranks 2 --strategy tiles -o tiles.plan"};
}

}  // namespace stretto::cli

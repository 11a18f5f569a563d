// stretto plan: prints the program of every rank; of a file, what was read from it.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/json.h"
#include "cli/progress.h"
#include "cli/request.h"
#include "cli/verb.h"
#include "core/text.h"
#include "stretto/error.h"
#include "stretto/lower.h"
#include "tables/plan_limits.h"
#include "tables/program_listing.h"

namespace stretto::cli {
namespace {

void require_step(const std::string& step, const Options& options, const Request& request) {
  std::vector<std::string_view> known;
  for (const LowerStep& row : lower_steps()) known.push_back(row.name);
  if (std::find(known.begin(), known.end(), step) == known.end()) {
    throw UsageError(unknown_word("step", step, known));
  }
  if (request.file) {
    throw UsageError("--dump-after needs an operator to lower; a plan file is lowered already");
  }
  if (!options.rows.empty()) {
    throw UsageError(
        "--rows looks at a run of a lowered plan, --dump-after before: leave one out; "
        "rows=bucket in --schedule plans for such runs");
  }
}

Plan plan_after(const Request& request, const std::string& step) {
  Plan plan;
  lower(request.planned, request.choices.front().schedule, request.machine,
        [&](const LowerStep& row, const Draft& draft) {
          if (row.name == step) plan = draft.plan;
        });
  return plan;
}

// What the host of each rank enqueues for the plan.
std::string program_of(const Plan& plan) {
  const auto sums = std::make_shared<const cuda::TileSums>(plan);
  if (const auto reasons = cuda::why_not_on_cuda(plan, *sums); !reasons.empty()) {
    throw UsageError("GPUs cannot run this plan, so it has no program: " + reasons.front());
  }
  return cuda::print(cuda::list_programs(plan, cuda::programs_of(plan, sums)));
}

Outcome run(const Options& options) {
  const Request request = resolve(options);
  say_what_auto_chose(request.choices, request.planned, request.machine);
  if (request.choices.size() > 1) {
    throw UsageError(
        "stretto plan prints one plan; name one strategy, for example --strategy tiles");
  }
  const std::string& step = options.dump_after;
  if (!step.empty()) require_step(step, options, request);
  if (!step.empty() && options.program) {
    throw UsageError(
        "--program needs a whole plan, --dump-after shows a part of one: leave one out");
  }
  Json json = json_header("plan");
  std::string text;
  Progress progress;
  const auto tell = [&](const std::string& strategy, const std::string& reason, const Plan& plan) {
    text = options.program ? program_of(plan) : print(plan);
    json["operator"] = to_json(request.op);
    json["machine"] = request.machine.name;
    json["strategy"] = strategy;
    json["schedule"] = plan.schedule;
    if (!reason.empty()) json["reason"] = reason;
    json["plan"] = plan_counts(plan);
  };
  if (step.empty()) {
    for_each_plan(request, progress,
                  [&](const NamedPlan& named) { tell(named.name, named.reason(), *named.plan); });
  } else {
    const Choice& choice = request.choices.front();
    tell(choice.name, choice.reason, plan_after(request, step));
  }
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
        add_flag(app, "--program", options.program,
                 "What each rank enqueues for it on GPUs: kernels, streams, who makes which wait");
      },
      run, "stretto plan gemm-rs --m 512 --n 512 --k 512 --ranks 2 --strategy tiles -o tiles.plan"};
}

}  // namespace stretto::cli

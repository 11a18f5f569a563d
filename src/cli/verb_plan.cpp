// stretto plan: prints the program of every rank; of a file, what was read from it.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/json.h"
#include "cli/progress.h"
#include "cli/request.h"
#include "cli/table.h"
#include "cli/verb.h"
#include "core/text.h"
#include "run/between_ranks.h"
#include "stretto/derive.h"
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
  if (!request.files.empty()) {
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

// The file's plan gets its signals.
void derive(PlanFile& file) {
  try {
    file.plan = derive_signals(std::move(file.plan));
  } catch (const UnorderedPlan& error) {
    throw UsageError((error.where ? place(file, file.lines.of(*error.where)) : file.name + ": ") +
                     error.what());
  } catch (const UsageError& error) {
    throw UsageError(file.name + ": " + error.what());
  }
}

// What the host of each rank enqueues for the plan.
std::string program_of(const Plan& plan) {
  const auto sums = std::make_shared<const cuda::TileSums>(plan);
  if (const auto reasons = cuda::why_not_on_cuda(plan, *sums); !reasons.empty()) {
    throw UsageError("GPUs cannot run this plan, so it has no program: " + reasons.front());
  }
  return cuda::print(cuda::list_programs(plan, cuda::programs_of(plan, sums)));
}

std::string mib(size_t bytes) {
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
}

// What operations take of every GPU, between ranks and by themselves, by plan.
Outcome tell_memory(const Options& options, Json json,
                    const std::vector<runtime::PlannedMemory>& plans) {
  const runtime::BetweenRanks all = runtime::of_operation(plans);
  Table table({"rows", "workspace", "slots", "own"});
  size_t own = 0;
  for (const runtime::PlannedMemory& one : plans) {
    table.add({fmt::format("{}", one.rows), mib(one.bytes.workspace), mib(one.bytes.slots),
               mib(one.own)});
    own += one.own;
  }
  table.add({"all", mib(all.workspace), mib(all.slots), mib(own)});
  const std::string text = table.print();
  if (!options.json) return {text, kGood};
  json["text"] = text;
  json["memory"] = Json::array();
  for (const runtime::PlannedMemory& one : plans) {
    json["memory"].push_back({{"rows", one.rows},
                              {"schedule", one.schedule},
                              {"workspace_bytes", one.bytes.workspace},
                              {"slot_bytes", one.bytes.slots},
                              {"own_bytes", one.own}});
  }
  return {dump(json), kGood};
}

// Of the plans of an operation that serves.
Outcome tell_served_memory(const Options& options) {
  if (!options.strategy.empty() && options.strategy != "auto") {
    throw UsageError("--serve looks at what auto takes for each bucket: leave --strategy out");
  }
  const Operator op = resolve_operators(options).front();
  const Segment* product = op.only_product();
  if (product == nullptr) {
    throw UsageError(op.name() + " has fixed rows, so it has one plan: leave --serve out");
  }
  const Machine machine = resolve_machine(options, op.ranks);
  Json json = json_header("plan");
  json["operator"] = to_json(op);
  json["machine"] = machine.name;
  json["strategy"] = "auto";
  return tell_memory(options, json, runtime::memory_of_buckets(*product, machine, load_tuning()));
}

Outcome run(const Options& options) {
  if (options.serve && !options.workspace) {
    throw UsageError("--serve looks at the plans of an operation, for --workspace: leave it out");
  }
  if (options.workspace && (options.program || !options.dump_after.empty())) {
    throw UsageError("--workspace needs a whole plan, and prints no program: leave one out");
  }
  if (options.derive && options.serve) {
    throw UsageError("--derive is for a plan file, --serve for an operator: leave one out");
  }
  if (options.serve) return tell_served_memory(options);
  Request request = resolve(options);
  if (request.num_plans() > 1) {
    throw UsageError(request.files.empty()
                         ? "stretto plan prints one plan; name one strategy, for example "
                           "--strategy tiles"
                         : "stretto plan prints one plan; name one file");
  }
  if (options.derive) {
    if (request.files.empty()) {
      throw UsageError("--derive is for a plan file; what is lowered has its signals already");
    }
    derive(request.files.front());
  }
  say_why(request.choices, request.planned, request.machine);
  const std::string& step = options.dump_after;
  if (!step.empty()) require_step(step, options, request);
  if (!step.empty() && options.program) {
    throw UsageError(
        "--program needs a whole plan, --dump-after shows a part of one: leave one out");
  }
  Json json = json_header("plan");
  std::string text;
  std::vector<runtime::PlannedMemory> memory;
  Progress progress;
  const auto tell = [&](const std::string& strategy, const std::string& reason, const Plan& plan) {
    if (options.workspace) {
      memory.push_back(runtime::memory_of(plan));
    }
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
  if (options.workspace) return tell_memory(options, json, memory);
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
        add_flag(app, "--derive", options.derive,
                 "Of a file without waits and notifies: with those that its tasks need");
        add_flag(app, "--program", options.program,
                 "What each rank enqueues for it on GPUs: kernels, streams, who makes which wait");
        add_flag(app, "--workspace", options.workspace,
                 "How much of every GPU's memory lies between ranks, and how much is a rank's own, "
                 "in the place of the plan");
        add_flag(
            app, "--serve", options.serve,
            "With --workspace: of the plans of an operation of up to M rows, for every bucket");
      },
      run, "stretto plan gemm-rs --m 512 --n 512 --k 512 --ranks 2 --strategy tiles -o tiles.plan"};
}

}  // namespace stretto::cli

#include "cli/bench_run.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/parallel.h"
#include "core/text.h"
#include "gpu/shared_gpus.h"
#include "measure/expert_rows.h"
#include "measure/library_plan.h"
#include "measure/look_up_bytes.h"
#include "stretto/error.h"
#include "stretto/lower.h"
#include "stretto/simulate.h"
#include "tables/plan_limits.h"
#include "tune/limits.h"

namespace stretto::cli {
namespace {

int blocks_of(const Plan& plan, LaneKind kind) {
  return static_cast<int>(
      std::count_if(plan.lanes.begin(), plan.lanes.end(),
                    [&](const Lane& lane) { return lane.rank == 0 && lane.kind == kind; }));
}

struct Lowered {
  std::unique_ptr<Plan> plan;
  double predicted_us = 0;
};

std::string routing_text(const Operator& op, const Routing& routing) {
  if (!runtime::chooses(op)) return "";
  if (!runtime::takes_routing(op))
    return "by scores, of which the floor has as many rows for each expert";
  return routing.table ? "of a file" : std::string(to_string(routing.kind));
}

}  // namespace

BenchRun::BenchRun(int ranks) : fabric_(open_gpus(ranks)) {}

BenchedOperator BenchRun::run(const Operator& op, const Machine& machine,
                              std::vector<Choice> choices, const runtime::BenchOptions& timing,
                              const std::function<void(double)>& progress) {
  BenchedOperator benched;
  benched.op = op;
  benched.machine = machine;
  const InputData data = runtime::bench_data(timing.routing);
  benched.link_floor_us = runtime::routed_link_bytes(op, data) / (machine.link_gb_per_s * 1e3);
  benched.look_up_floor_us = runtime::look_up_bytes(op) / (machine.hbm_gb_per_s * 1e3);
  benched.expert_floor_us = runtime::expert_floor_us(op, machine, data);
  benched.routing = routing_text(op, timing.routing);
  // Lowering is the work of one core; plans are independent.
  std::vector<Lowered> all_lowered(choices.size());
  for_each_in_parallel(choices.size(), choices.size(), [&](size_t i) {
    if (!choices[i].refused.empty()) return;
    all_lowered[i].plan = std::make_unique<Plan>(lower(op, choices[i].schedule, machine));
    all_lowered[i].predicted_us = simulated_us(*all_lowered[i].plan, machine);
  });
  std::vector<std::unique_ptr<Plan>> owned;
  std::vector<runtime::PlanToTime> plans;
  std::vector<size_t> places;  // of each plan's strategy
  for (size_t i = 0; i < choices.size(); ++i) {
    BenchedStrategy& strategy = benched.strategies.emplace_back();
    Lowered& lowered = all_lowered[i];
    strategy.choice = choices[i];
    if (lowered.plan == nullptr) continue;
    const Plan& plan = *lowered.plan;
    strategy.choice.refused = cuda::why_not_on_cuda(plan);
    if (!strategy.choice.refused.empty()) continue;
    strategy.predicted_us = lowered.predicted_us;
    strategy.compute_sms = blocks_of(plan, LaneKind::compute);
    strategy.comm_sms = blocks_of(plan, LaneKind::comm);
    plans.push_back({&plan, choices[i].if_not_proposed()});
    places.push_back(i);
    owned.push_back(std::move(lowered.plan));
  }
  const runtime::LibraryPlan library = runtime::library_plan(op, machine);
  runtime::BenchTimes times =
      runtime::bench_operator(op, library.plan.get(), plans, *fabric_, compiler_, timing, progress);
  benched.library = times.library;
  if (!benched.library.sequential && benched.library.problem.empty()) {
    benched.library.problem = "cannot serve this: " + join(library.refused, "; ");
  }
  for (size_t i = 0; i < places.size(); ++i) {
    BenchedStrategy& strategy = benched.strategies[places[i]];
    strategy.measured = std::move(times.plans[i]);
    if (!strategy.measured.refused.empty()) strategy.choice.refused = {strategy.measured.refused};
    Choice& choice = strategy.choice;
    AutoSchedules taken =
        with_first_algorithms({choice.schedule, choice.reason}, strategy.measured.not_proposed);
    choice.schedule = std::move(taken.schedule);
    choice.reason = std::move(taken.reason);
  }
  return benched;
}

runtime::BenchOptions resolve_timing(const Options& options) {
  cuda::require_own_gpus_for_times();
  runtime::BenchOptions timing;
  timing.rounds = static_cast<int>(whole_number("--rounds", options.rounds, 11, 1, 10'000));
  timing.turn_us =
      1e3 * static_cast<double>(whole_number("--turn", options.turn, 0, 0, kMostTurnMs));
  timing.cold = !options.no_cold;
  return timing;
}

std::string resolve_commit(const Options& options) {
  const std::string& commit = options.commit;
  const bool printable =
      std::all_of(commit.begin(), commit.end(), [](char c) { return c >= ' ' && c <= '~'; });
  if (!printable || commit.size() > kMostTuningText) {
    throw UsageError(fmt::format("--commit {} is not a text of at most {} printable characters",
                                 quote(commit), kMostTuningText));
  }
  return commit;
}

}  // namespace stretto::cli

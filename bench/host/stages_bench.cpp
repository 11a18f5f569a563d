// Time of each stage on one core: lowering (with the placing of signals), checking, simulation,
// printing and parsing; for 1x, 4x and 16x the tasks of the reference shape, and for 64 ranks, also
// with fewer rows than ranks.
#include <benchmark/benchmark.h>

#include "host/subject.h"
#include "stretto/check.h"
#include "stretto/simulate.h"

namespace stretto::bench {
namespace {

size_t num_tasks(const Plan& plan) {
  size_t tasks = 0;
  for (const Lane& lane : plan.lanes) {
    for (const Instr& instr : lane.instrs) tasks += instr.is_task();
  }
  return tasks;
}

// `stage(subject, plan)` is what is timed.
template <typename Stage>
void time_stage(benchmark::State& state, const Stage& stage) {
  const Subject subject = down_projection(state.range(0), static_cast<int>(state.range(1)));
  const Plan plan = subject.lower();
  for (auto _ : state) stage(subject, plan);
  const double tasks = static_cast<double>(num_tasks(plan));
  state.SetLabel(subject.label());
  state.counters["tasks"] = tasks;
  state.counters["time/task"] = benchmark::Counter(
      tasks, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void lower_and_place(benchmark::State& state) {
  time_stage(state, [](const Subject& subject, const Plan&) {
    benchmark::DoNotOptimize(subject.lower().lanes.data());
  });
}

void check_plan(benchmark::State& state) {
  time_stage(state, [&](const Subject&, const Plan& plan) {
    if (!check(plan).clean()) state.SkipWithError("the plan is not clean");
  });
}

void simulate_plan(benchmark::State& state) {
  time_stage(state, [](const Subject& subject, const Plan& plan) {
    benchmark::DoNotOptimize(simulate(plan, subject.machine).total_us);
  });
}

void print_plan(benchmark::State& state) {
  size_t num_bytes = 0;
  time_stage(state, [&](const Subject&, const Plan& plan) { num_bytes = print(plan).size(); });
  state.counters["MB"] = static_cast<double>(num_bytes) / 1e6;
}

void parse_printed_plan(benchmark::State& state) {
  std::string text;
  time_stage(state, [&](const Subject&, const Plan& plan) {
    if (text.empty()) {
      state.PauseTiming();
      text = print(plan);
      state.ResumeTiming();
    }
    benchmark::DoNotOptimize(parse_plan(text).lanes.data());
  });
}

// The reference shape is the first: 8192 rows on 8 ranks.
void sizes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"m", "ranks"})->Unit(benchmark::kMillisecond);
  for (int64_t m : {8192, 4 * 8192, 16 * 8192}) bench->Args({m, 8});
  bench->Args({8192, 64});
  bench->Args({37, 64});  // ranks without rows hear from nobody: acknowledgements
}

BENCHMARK(lower_and_place)->Apply(sizes);
BENCHMARK(check_plan)->Apply(sizes);
BENCHMARK(simulate_plan)->Apply(sizes);
BENCHMARK(print_plan)->Apply(sizes);
BENCHMARK(parse_printed_plan)->Apply(sizes);

}  // namespace
}  // namespace stretto::bench

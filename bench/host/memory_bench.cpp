// Peak memory of a process that takes the reference shape through every stage.
#include <benchmark/benchmark.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/subject.h"
#include "stretto/check.h"
#include "stretto/simulate.h"

namespace stretto::bench {
namespace {

int all_stages(const Subject& subject) {
  const Plan plan = subject.lower();
  const bool clean = check(plan).clean();
  const bool predicted = simulate(plan, subject.machine).total_us > 0;
  const bool same = print(parse_plan(print(plan))) == print(plan);
  return clean && predicted && same ? 0 : 1;
}

// In a child of its own: the peak of this process holds earlier benchmarks too.
void peak_memory(benchmark::State& state) {
  const Subject subject = down_projection(state.range(0), static_cast<int>(state.range(1)));
  double peak_mb = 0;
  for (auto _ : state) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(all_stages(subject));
    int status = 0;
    rusage usage{};
    if (child < 0 || ::wait4(child, &status, 0, &usage) != child || status != 0) {
      state.SkipWithError("a stage failed");
      break;
    }
    peak_mb = static_cast<double>(usage.ru_maxrss) / 1024;
  }
  state.SetLabel(subject.label());
  state.counters["peak_MB"] = peak_mb;
}

BENCHMARK(peak_memory)
    ->ArgNames({"m", "ranks"})
    ->Args({8192, 8})
    ->Args({8192, 64})
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond)
    ->MeasureProcessCPUTime()
    ->UseRealTime();

}  // namespace
}  // namespace stretto::bench

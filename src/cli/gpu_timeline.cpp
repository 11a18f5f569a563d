#include "cli/gpu_timeline.h"

#include <fmt/format.h>

#include "cli/table.h"
#include "cli/terminal.h"
#include "core/file.h"
#include "measure/gpu_check.h"
#include "measure/measured_timeline.h"
#include "measure/rank_times.h"
#include "measure/run_graphs.h"
#include "stretto/perfetto.h"

namespace stretto::cli {
namespace {

constexpr int kRanksDrawn = 2;
constexpr int kRunsPerGraph = 10;  // even: see PlanRunner::runs_per_graph()

std::string print(const std::vector<runtime::RankTimes>& times) {
  Table table({"rank", "first tile", "in tiles", "waiting", "most", "first copy", "told",
               "last told", "notify", "end"});
  table.add({"", "us", "us", "us", "us", "us", "us", "us", "us", "us"});
  const auto us = [](double time) { return time > 0 ? fmt::format("{:.1f}", time) : "-"; };
  for (const runtime::RankTimes& t : times) {
    table.add({fmt::format("{}", t.rank), us(t.first_tile_us), us(t.multiplying_us),
               us(t.waiting_us), us(t.most_waiting_us), us(t.first_copied_us), us(t.first_told_us),
               us(t.last_told_us), us(t.notify_us), us(t.end_us)});
  }
  constexpr size_t kLabelWidth = 12;
  return table.print() + '\n' +
         labelled("first tile", "that awaited other ranks: multiplied", kLabelWidth) +
         labelled("in tiles",
                  "a compute lane's; waiting: of a lane, and of the one that waits most",
                  kLabelWidth) +
         labelled("first copy", "of a comm lane: arrived; told: its notifies are made",
                  kLabelWidth) +
         labelled("notify", "from the end of a task's work until its notifies are made",
                  kLabelWidth) +
         labelled("all", "medians over lanes; a rank's times begin with its first block",
                  kLabelWidth);
}

}  // namespace

std::string measure_timeline(const Plan& plan, const PlanLines* lines, fabric::Fabric& fabric,
                             const cuda::Compiler& compiler, const std::string& perfetto) {
  runtime::RunnerOptions options;
  options.marks = true;
  runtime::PlanRunner runner(plan, fabric, compiler, options);
  // For its inputs.
  runtime::GpuCheckOptions check;
  check.fills = {Fill::random};
  check.runs = 1;
  check.replays = 0;
  check.max_reference = 1e8;
  check_on_gpus(runner, fabric, check);
  const runtime::RunGraphs graphs(runner, fabric, kRunsPerGraph);
  for (int launches = 0; launches < 3; ++launches) graphs.time_us();
  const auto marks = runner.marks();
  const Timeline timeline = runtime::measured_timeline(plan, marks);
  if (!perfetto.empty() && fabric.first_rank() == 0) {
    write_file(perfetto, to_perfetto(plan, timeline, lines,
                                     {.machine = fabric.device(fabric.first_rank()).name()}));
  }
  return draw_timeline(plan, timeline, terminal_columns(), kRanksDrawn, is_ascii_terminal()) +
         '\n' + print(runtime::times_by_rank(plan, marks));
}

}  // namespace stretto::cli

// Measures a fabric: signals, pushes, an expired wait, a process that dies. One process with all
// GPUs, or one rank of a job under `stretto launch`, torchrun or mpirun.
//
//   fabric_bench --source windows --ranks 2
//   stretto launch -n 2 -- fabric_bench --source windows
#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "arguments.h"
#include "core/file.h"
#include "fabric/job.h"
#include "fabric_trials.h"
#include "stretto/error.h"

namespace stretto::bench {
namespace {

struct Options {
  std::string source = "windows", json;
  int ranks = 2, blocks = 8, die = -1;
  size_t megabytes = 256;
};

int measure(const Options& options) {
  if (!options.json.empty()) check_writable(options.json);  // before the work whose result it is
  const auto source = fabric::source_from(options.source);
  const auto job = fabric::job_from();
  const double before = now_ms();
  const auto fabric = job ? fabric::join(*job, source) : fabric::in_process(options.ranks, source);
  const double join_ms = now_ms() - before;
  if (fabric->ranks() < 2) throw UsageError("a fabric is measured with two ranks or more");
  if (options.die >= 0) {
    if (fabric->is_local(options.die)) kill(getpid(), SIGKILL);
    fabric->barrier();
  }
  Json report = {{"source", options.source},
                 {"ranks", fabric->ranks()},
                 {"started_by", job ? job->started_by : "one process"},
                 {"gpu", fabric->device(fabric->first_rank()).name()},
                 {"nccl", fabric::why_no_nccl().empty() ? fabric::nccl_version() : "none"},
                 {"blocks", options.blocks},
                 {"megabytes", options.megabytes},
                 {"join_ms", join_ms}};
  FabricTrials bench(*fabric, options.blocks, options.megabytes << 20);
  report["allocation_ms"] = bench.allocation_ms();
  report["wrong_words"] = bench.wrong_words();
  report["push_pair_gbs"] = bench.push_rate(false);
  report["push_all_gbs"] = bench.push_rate(true);
  fabric::RunState state(*fabric, 4, 200'000'000, "signals");
  report["round_trip_us"] = bench.round_trip_us(state);
  report["bare_round_trip_us"] = bench.round_trip_us(state, true);
  report["silent_peer"] = bench.silent_peer(state);
  if (fabric::why_no_nccl().empty()) report["wrong_sums"] = bench.wrong_sums();
  if (fabric->first_rank() != 0) return 0;
  fmt::print("{}\n", report.dump());
  if (!options.json.empty()) write_file(options.json, report.dump(2) + "\n");
  return report["wrong_words"] == 0 && report.value("wrong_sums", 0) == 0 ? 0 : 1;
}

}  // namespace
}  // namespace stretto::bench

int main(int argc, char** argv) {
  using namespace stretto;
  bench::Options options;
  bench::Arguments arguments("Measures symmetric memory between GPUs");
  arguments.add("--source", options.source, "peer, windows or exported");
  arguments.add("--ranks", options.ranks, "GPUs of one process, without a launcher");
  arguments.add("--blocks", options.blocks, "blocks that push");
  arguments.add("--megabytes", options.megabytes, "pushed at a time");
  arguments.add("--die", options.die, "the rank whose process ends after joining");
  arguments.add("--json", options.json, "file for the report");
  if (const auto code = arguments.parse(argc, argv)) return *code;
  return bench::run_program("fabric_bench", [&] { return bench::measure(options); });
}

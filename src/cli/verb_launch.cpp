// stretto launch -n RANKS -- COMMAND...: one process a rank on this machine.
#include <cstdio>

#include "cli/verb.h"
#include "fabric/frame.h"
#include "fabric/launcher.h"
#include "stretto/error.h"

namespace stretto::cli {
namespace {

void add_options(CLI::App& app, Options& options) {
  add_option(app, "-n,--processes", options.processes, "Processes, a rank and a GPU each", "RANKS");
  add_rest(app, "command", options.command, "After --: the command and its arguments");
}

Outcome run(const Options& options) {
  if (options.processes.empty() || options.command.empty()) {
    throw UsageError(
        "launch needs a number of processes and a command: stretto launch -n 2 -- CMD");
  }
  const int64_t ranks = whole_number("--processes", options.processes, 1, 1, fabric::kMaxProcesses);
  const auto tell = [](const std::string& line) {
    std::fputs(("stretto: " + line + "\n").c_str(), stderr);
  };
  return {"",
          static_cast<ExitCode>(fabric::launch(static_cast<int>(ranks), options.command, tell))};
}

}  // namespace

Verb launch_verb() {
  return {
      "launch",
      "Run a command in one process a rank on this machine",
      add_options,
      run,
      "stretto launch -n 2 -- stretto run gemm-rs --m 512 --n 512 --k 512 --ranks 2 --target cuda",
      false};
}

}  // namespace stretto::cli

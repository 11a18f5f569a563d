// A million runs of operations that take turns (soaked_runs.h): bits compared.
#include <fmt/format.h>

#include <chrono>
#include <iostream>

#include "arguments.h"
#include "gpu/shared_gpus.h"
#include "soaked_runs.h"

using namespace stretto;

int main(int argc, char** argv) {
  bench::Arguments arguments("Runs of operations in turns, ranks apart at random: bits compared");
  int ranks = 2, timeout_s = 10;
  // Streams of copy engines wait for each other's ranks. Those of several operations of ranks that
  // share a GPU are more than it has queues (fabric.md), and one wait then holds up another's peer.
  std::vector<std::string> schedules = {"low-latency", "tiles", "slices"};
  if (cuda::ranks_a_gpu() == 1) schedules.emplace_back("decomposed");
  int64_t runs = 1'000'000, rows = 48, n = 512, k = 512, seed = 1;
  arguments.add("--ranks", ranks, "GPUs");
  arguments.add("--runs", runs, "runs in all, at least");
  arguments.add("--m", rows, "rows of the largest run");
  arguments.add("--n", n, "columns of the result");
  arguments.add("--k", k, "length of the sums");
  arguments.add("--schedules", schedules, "of every operator");
  arguments.add("--timeout", timeout_s, "seconds that a wait may take");
  arguments.add("--seed", seed, "of inputs and delays");
  if (const auto code = arguments.parse(argc, argv)) return *code;
  return bench::run_program(
      "soak",
      [&] {
        if (runs < 1 || rows < 3) throw UsageError("--runs is 1 or more, --m 3 or more");
        const auto begin = std::chrono::steady_clock::now();
        bench::Soak soak(ranks, rows, n, k, schedules, static_cast<uint64_t>(seed), timeout_s);
        const int64_t launches = (runs + soak.runs_a_launch() - 1) / soak.runs_a_launch();
        soak.run(launches);
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
        std::cout << fmt::format(
            R"({{"ranks": {}, "runs": {}, "operations": ["{}"], "wrong_launches": {}, "seconds": {:.1f}}})"
            "\n",
            ranks, launches * soak.runs_a_launch(), fmt::join(soak.names(), R"(", ")"),
            soak.wrong_launches(), took.count());
        return soak.wrong_launches() == 0 ? 0 : 1;
      },
      false);
}

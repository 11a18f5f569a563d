// Kernels of the device language on the GPUs of this process, against NCCL, in one run.
//
//   lang_bench --ranks 4 --what all-reduce parts norm experts sync movers --out FILE
//
// Every result is verified before and after it is timed. Times are of captured graphs: calls back
// to back, and one call from rest; medians and 99th percentiles of the longest rank. Where ranks
// share GPUs (STRETTO_RANKS_A_GPU) results are verified and nothing is timed.
#include "lang_bench.h"

#include <algorithm>
#include <cstdio>

#include "arguments.h"
#include "gpu/shared_gpus.h"
#include "report_file.h"
#include "stretto/error.h"

namespace stretto::bench {
namespace {

int main_checked(int argc, char** argv) {
  Arguments arguments("Kernels of the device language against NCCL");
  int ranks = 2;
  const ReportFile report("device language", arguments);
  const std::vector<std::string> parts = {"all-reduce", "parts", "norm",
                                          "experts",    "sync",  "movers"};
  std::vector<std::string> what = parts;
  std::vector<int> one_shot = {16, 64, 128}, two_shot = {64, 128}, norm_blocks = {64, 128};
  std::vector<int> parts_blocks = {8, 32, 64, 128}, parts_in_flight = {4, 8};
  std::vector<int> hidden = {4096, 5120, 7168, 8192};
  std::vector<int> tokens = {1, 8, 32, 64, 128, 256, 512, 1024, 2048, 4096};
  std::vector<int> expert_tokens = {1, 8, 32, 128, 512, 4096};
  size_t max_bytes = size_t{16} << 20;
  arguments.add("--ranks", ranks, "GPUs");
  arguments.add("--what", what, "all-reduce, parts, norm, experts, sync, movers");
  arguments.add("--one-shot-blocks", one_shot, "blocks to try");
  arguments.add("--two-shot-blocks", two_shot, "blocks to try");
  arguments.add("--parts-blocks", parts_blocks, "blocks to try");
  arguments.add("--parts-in-flight", parts_in_flight, "vectors in flight to try");
  arguments.add("--norm-blocks", norm_blocks, "blocks to try");
  arguments.add("--hidden", hidden, "row lengths of norms");
  arguments.add("--tokens", tokens, "rows of norms");
  arguments.add("--expert-tokens", expert_tokens, "tokens of a rank");
  arguments.add("--max-bytes", max_bytes,
                "largest all-reduce, and shard of movers; parts at most 4 MB");
  if (const auto code = arguments.parse(argc, argv)) return *code;
  for (const std::string& part : what) {
    if (std::find(parts.begin(), parts.end(), part) == parts.end()) {
      throw UsageError("--what is all-reduce, parts, norm, experts, sync or movers, not '" + part +
                       "'");
    }
  }
  if (report.is_wanted()) cuda::require_own_gpus_for_times();
  report.check_writable();

  LangBench bench(ranks, size_t{2} << 30);
  Json results = {{"machine", bench.team.fabric().device(0).name()},
                  {"ranks", ranks},
                  {"data", "whole numbers -8 to 8, bf16"}};
  for (const std::string& part : what) {
    try {
      if (part == "all-reduce") {
        results["all_reduce"] = bench_all_reduce(bench, one_shot, two_shot, max_bytes);
      } else if (part == "parts") {
        results["parts"] = bench_parts(bench, parts_blocks, parts_in_flight, max_bytes);
      } else if (part == "norm") {
        results["all_reduce_norm"] = bench_all_reduce_norm(bench, hidden, tokens, norm_blocks);
      } else if (part == "experts") {
        results["experts"] = bench_experts(bench, expert_tokens);
      } else if (part == "sync") {
        results["sync"] = bench_sync(bench);
      } else {
        results["movers"] = bench_movers(bench, max_bytes);
      }
    } catch (const SystemError& error) {
      fmt::print("{}: {}\n", part, error.what());
      results["failed"].push_back({{"what", part}, {"why", error.what()}});
    }
  }
  report.write(results);
  return results.contains("failed") ? 1 : 0;
}

}  // namespace
}  // namespace stretto::bench

int main(int argc, char** argv) {
  return stretto::bench::run_program(
      "lang_bench", [&] { return stretto::bench::main_checked(argc, argv); }, false);
}

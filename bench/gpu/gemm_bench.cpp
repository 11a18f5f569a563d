// The GEMM kernel alone against cuBLAS, in one run: each shape is verified, a list of
// configurations is timed briefly, and the best are timed in turns with cuBLAS.
//
//   gemm_bench --out results.json [--shapes MxNxK,...] [--quick] [--compile-only ARCH]

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "arguments.h"
#include "gemm_contest.h"
#include "gpu/gemm_kernel.h"
#include "gpu/nvrtc_api.h"
#include "report_file.h"

namespace stretto::bench {
namespace {

void compile_all(const std::string& arch) {
  const cuda::Compiler compiler;
  for (const GemmConfig& config : configs()) {
    const cuda::CompiledKernel kernel = compiler.compile(cuda::gemm_source(config), arch);
    fmt::print("{:60} {:5.0f} ms, {} bytes spilled{}\n", cuda::describe(config), kernel.compile_ms,
               cuda::spilled_bytes(kernel.log), kernel.cached ? ", cached" : "");
  }
}

int main_checked(int argc, char** argv) {
  Arguments arguments("The GEMM kernel alone against cuBLAS");
  const ReportFile report("gemm", arguments);
  std::string arch;
  std::vector<std::string> texts;
  bool quick = false;
  arguments.add("--shapes", texts, "MxNxK, of one GPU; default: the baseline table's");
  arguments.add("--compile-only", arch, "fill the kernel cache for this architecture and stop");
  arguments.add("--quick", quick, "fewer candidates and rounds");
  if (const auto code = arguments.parse(argc, argv)) return *code;
  if (!arch.empty()) {
    compile_all(arch);
    return 0;
  }
  report.check_writable();
  std::vector<Shape> shapes = shapes_from(texts);
  if (shapes.empty()) shapes = baseline_shapes();

  GemmContest contest(quick);
  nlohmann::json rows = nlohmann::json::array();
  double log_large = 0, log_small = 0, worst = 1e9;
  int num_large = 0, num_small = 0;
  for (const Shape& shape : shapes) {
    rows.push_back(contest.run(shape));
    const double ratio = rows.back()["ratio"];
    (shape.m >= 2048 ? log_large : log_small) += std::log(ratio);
    ++(shape.m >= 2048 ? num_large : num_small);
    if (shape.m >= 2048) worst = std::min(worst, ratio);
  }
  fmt::print("geometric mean of cublas / ours: M >= 2048 {:.3f} (worst {:.3f}), smaller {:.3f}\n",
             std::exp(log_large / std::max(1, num_large)), worst,
             std::exp(log_small / std::max(1, num_small)));
  report.write(nlohmann::json{{"machine", contest.machine()},
                              {"compiler", cuda::compiler_version()},
                              {"launches_per_graph", kLaunchesPerGraph},
                              {"data", "standard normal"},
                              {"rows", rows}});
  return 0;
}

}  // namespace
}  // namespace stretto::bench

int main(int argc, char** argv) {
  return stretto::bench::run_program("gemm_bench",
                                     [&] { return stretto::bench::main_checked(argc, argv); });
}

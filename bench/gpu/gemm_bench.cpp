// The GEMM kernel alone against cuBLAS, in one run: each shape is verified, a list of
// configurations is timed briefly, and the best are timed in turns with cuBLAS.
//
//   gemm_bench --out results.json [--shapes MxNxK,...] [--quick] [--compile-only ARCH]

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "arguments.h"
#include "core/file.h"
#include "core/text.h"
#include "cuda/cublas.h"
#include "cuda/gemm_kernel.h"
#include "cuda/graph.h"
#include "cuda/nvrtc_api.h"
#include "cuda/test_data.h"
#include "gemm_launches.h"
#include "stretto/error.h"

namespace stretto::bench {
namespace {

using cuda::DeviceMemory;
using cuda::Matrix;

constexpr int kLaunchesPerGraph = 10;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Buffers {
  DeviceMemory a, b, c, reference;
  Buffers(size_t a_bytes, size_t b_bytes, size_t c_elements)
      : a(a_bytes), b(b_bytes), c(c_elements * 4), reference(c_elements * 4) {}
};

class Bench {
 public:
  explicit Bench(bool quick)
      : device_(0),
        data_(device_, compiler_),
        cublas_(stream_),
        kernels_(device_, compiler_),
        quick_(quick) {}

  std::string machine() const { return device_.name(); }

  nlohmann::json run(const Shape& shape) {
    const auto& [m, n, k] = shape;
    Buffers buffers(static_cast<size_t>(m * k * 2), static_cast<size_t>(n * k * 2),
                    static_cast<size_t>(m * n));
    const Matrix a{buffers.a.address(), m, k, k, DType::bf16};
    const Matrix b{buffers.b.address(), n, k, k, DType::bf16};
    const Matrix c{buffers.c.address(), m, n, n, DType::bf16};
    const GemmTensors tensors{a, b, c};
    const Matrix reference{buffers.reference.address(), m, n, n, DType::fp32};
    data_.fill(stream_, a.address, m * k, DType::bf16, device::Fill::normal, 1);
    data_.fill(stream_, b.address, n * k, DType::bf16, device::Fill::normal, 2);
    cublas_.multiply(a, b, reference);

    // A first look at every candidate.
    struct Timed {
      Candidate candidate;
      double time_us, error;
    };
    std::vector<Timed> timed;
    std::vector<Candidate> all = candidates(quick_);
    add_split(shape, device_.num_sms(), all);
    for (const Candidate& candidate : all) {
      const GemmLaunches run(kernels_, stream_, tensors, candidate, kLaunchesPerGraph);
      cuda::check(cuda::driver().fill_bytes(c.address, 0xff, static_cast<size_t>(m * n * 2),
                                            stream_.handle()),
                  "poison the output");
      run.launch();
      const double error = cuda::relative_error(
          data_.compare(stream_, c.address, DType::bf16, reference.address, m * n));
      std::vector<double> times;
      for (int i = 0; i < 3; ++i) times.push_back(time_us([&] { run.launch(); }));
      timed.push_back({candidate, median(times), error});
    }
    const auto faster = [](const Timed& x, const Timed& y) { return x.time_us < y.time_us; };
    std::sort(timed.begin(), timed.end(), faster);

    // The better ones in turns with cuBLAS, so that all meet the same clock; then the best of them.
    const cuda::Graph baseline(stream_, [&] {
      for (int i = 0; i < kLaunchesPerGraph; ++i) cublas_.multiply(a, b, c);
    });
    const auto in_turns = [&](size_t count, int rounds) {
      std::vector<std::unique_ptr<GemmLaunches>> runs;
      for (size_t i = 0; i < count; ++i) {
        runs.push_back(std::make_unique<GemmLaunches>(kernels_, stream_, tensors,
                                                      timed[i].candidate, kLaunchesPerGraph));
      }
      std::vector<std::vector<double>> times(count + 1);
      for (int round = 0; round < rounds; ++round) {
        times[count].push_back(time_us([&] { baseline.launch(stream_); }));
        for (size_t i = 0; i < count; ++i) {
          times[i].push_back(time_us([&] { runs[i]->launch(); }));
        }
      }
      return times;
    };
    const size_t finalists = std::min<size_t>(6, timed.size());
    const auto trial = in_turns(finalists, 7);
    for (size_t i = 0; i < finalists; ++i) timed[i].time_us = median(trial[i]);
    std::sort(timed.begin(), timed.begin() + static_cast<long>(finalists), faster);
    const Timed best = timed.front();
    const auto final_times = in_turns(1, quick_ ? 7 : 15);
    const std::vector<double>&our_times = final_times[0], &baseline_times = final_times[1];
    double worst_error = 0;
    for (const Timed& one : timed) worst_error = std::max(worst_error, one.error);
    const double our_us = median(our_times), baseline_us = median(baseline_times);
    const auto [low, high] = std::minmax_element(our_times.begin(), our_times.end());
    std::string table_of_others;
    for (size_t i = 1; i < std::min<size_t>(4, timed.size()); ++i) {
      table_of_others +=
          fmt::format("  [{} {:.1f}]", short_name(timed[i].candidate), timed[i].time_us);
    }
    fmt::print(
        "{:5} {:5} {:5}  cublas {:7.1f}  ours {:7.1f}  {:.3f}  {:4.0f} TF  err {:.1e}  {}{}\n", m,
        n, k, baseline_us, our_us, baseline_us / our_us,
        2e-6 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) / our_us,
        worst_error, short_name(best.candidate), table_of_others);
    std::fflush(stdout);
    return {{"m", m},
            {"n", n},
            {"k", k},
            {"dtype", "bf16"},
            {"config", cuda::describe(best.candidate.config)},
            {"band", best.candidate.band},
            {"ranges", best.candidate.ranges},
            {"time_us", our_us},
            {"low_us", *low},
            {"high_us", *high},
            {"cublas_us", baseline_us},
            {"ratio", baseline_us / our_us},
            {"worst_error", worst_error}};
  }

 private:
  static std::string short_name(const Candidate& candidate) {
    static const char* const kShared[] = {"-", "a", "b"};
    const GemmConfig& config = candidate.config;
    return fmt::format("{}x{}{}{} /{}{}", config.tile_m, config.tile_n,
                       kShared[static_cast<int>(config.shared)], config.overlap_store ? "" : "!",
                       candidate.band,
                       candidate.ranges > 1 ? fmt::format(" K/{}", candidate.ranges) : "");
  }

  template <typename Launch>
  double time_us(Launch launch) {
    start_.record(stream_);
    launch();
    stop_.record(stream_);
    stream_.synchronize();
    return stop_.elapsed_us_since(start_) / kLaunchesPerGraph;
  }

  cuda::Device device_;
  cuda::Compiler compiler_;
  cuda::Stream stream_;
  cuda::TestData data_;
  cuda::Cublas cublas_;
  cuda::Event start_, stop_;
  GemmKernels kernels_;
  bool quick_;
};

Shape shape_from(const std::string& text) {
  std::vector<int64_t> sizes;
  for (const std::string_view part : split(text, 'x')) {
    const auto value = int_from(part);
    if (!value || *value < 1) throw UsageError("a shape is MxNxK, not '" + text + "'");
    sizes.push_back(*value);
  }
  if (sizes.size() != 3) throw UsageError("a shape is MxNxK, not '" + text + "'");
  return {sizes[0], sizes[1], sizes[2]};
}

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
  std::string out, commit, date, arch;
  std::vector<std::string> texts;
  bool quick = false;
  arguments.add("--out", out, "JSON file for the results");
  arguments.add("--shapes", texts, "MxNxK, of one GPU; default: the baseline table's");
  arguments.add("--commit", commit, "recorded with the results");
  arguments.add("--date", date, "recorded with the results");
  arguments.add("--compile-only", arch, "fill the kernel cache for this architecture and stop");
  arguments.add("--quick", quick, "fewer candidates and rounds");
  if (const auto code = arguments.parse(argc, argv)) return *code;
  if (!arch.empty()) {
    compile_all(arch);
    return 0;
  }
  if (!out.empty()) check_writable(out);  // before the work whose result it is
  std::vector<Shape> shapes;
  for (const std::string& text : texts) shapes.push_back(shape_from(text));
  if (shapes.empty()) shapes = baseline_shapes();

  Bench bench(quick);
  nlohmann::json rows = nlohmann::json::array();
  double log_large = 0, log_small = 0, worst = 1e9;
  int num_large = 0, num_small = 0;
  for (const Shape& shape : shapes) {
    rows.push_back(bench.run(shape));
    const double ratio = rows.back()["ratio"];
    (shape.m >= 2048 ? log_large : log_small) += std::log(ratio);
    ++(shape.m >= 2048 ? num_large : num_small);
    if (shape.m >= 2048) worst = std::min(worst, ratio);
  }
  fmt::print("geometric mean of cublas / ours: M >= 2048 {:.3f} (worst {:.3f}), smaller {:.3f}\n",
             std::exp(log_large / std::max(1, num_large)), worst,
             std::exp(log_small / std::max(1, num_small)));
  if (!out.empty()) {
    write_file(out, nlohmann::json{{"benchmark", "gemm"},
                                   {"machine", bench.machine()},
                                   {"commit", commit},
                                   {"date", date},
                                   {"compiler", cuda::compiler_version()},
                                   {"launches_per_graph", kLaunchesPerGraph},
                                   {"data", "standard normal"},
                                   {"rows", rows}}
                            .dump(1) +
                        "\n");
  }
  return 0;
}

}  // namespace
}  // namespace stretto::bench

int main(int argc, char** argv) {
  return stretto::bench::run_program("gemm_bench",
                                     [&] { return stretto::bench::main_checked(argc, argv); });
}

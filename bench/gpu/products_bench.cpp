// Products alone, as plans have them: cuBLAS's (the algorithm that plans take) and some of our
// tiles', in graphs, on matrices that no cache holds and on ones that it may; and what kernels cost
// beside their work: behind one another, and on a second stream.
//
//   products_bench --shapes FILE [--out results.json]
//
// A line of FILE is "m n k", of one GPU. Nothing is verified here: gemm_bench does that.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "algorithm_words.h"
#include "arguments.h"
#include "between_kernels.h"
#include "gemm_launches.h"
#include "gpu/graph.h"
#include "gpu/library_matmul.h"
#include "gpu/test_data.h"
#include "measure/spread.h"
#include "product_shape.h"
#include "report_file.h"
#include "stretto/error.h"

namespace stretto::bench {
namespace {

using cuda::DevicePtr;

constexpr int kMostLaunches = 40, kMostTables = 12;
constexpr int64_t kCacheBytes = 160 << 20;  // more than any L2
constexpr double kGraphUs = 12e3, kWarmUs = 40e3;
constexpr int kRounds = 5;
// SMs that movers leave: what cuBLAS is told in plans that have them.
constexpr int kFewerSms = 124;

std::vector<std::array<int, 2>> tiles_of(const Shape& shape) {
  if (shape.m <= 64) return {{64, 64}, {64, 128}};
  if (shape.m < 512) return {{64, 64}, {128, 64}, {128, 128}};
  return {{128, 128}, {128, 192}, {128, 256}};
}

class Bench {
 public:
  Bench(int64_t input_bytes, int64_t output_bytes)
      : device_(0),
        data_(device_, compiler_),
        kernels_(device_, compiler_),
        library_(1),
        memory_{cuda::DeviceMemory(static_cast<size_t>(input_bytes)),
                cuda::DeviceMemory(static_cast<size_t>(output_bytes)),
                cuda::DeviceMemory(cuda::kCublasWorkspaceBytes)} {
    data_.fill(stream_, memory_.inputs.address(), input_bytes / 2, DType::bf16,
               device::Fill::normal, 1);
    stream_.synchronize();
  }
  std::string machine() const { return device_.name(); }
  nlohmann::json between_kernels_us() {
    return bench::between_kernels_us(kernels_, library_, stream_, memory_);
  }

  nlohmann::json run(const Shape& shape) {
    const auto [m, n, k] = shape;
    const int64_t bytes = 2 * (m + n) * k;
    const int copies =
        static_cast<int>(std::min<int64_t>(kMostLaunches, (kCacheBytes + bytes - 1) / bytes + 1));
    const auto tensors = [&](int copy) {
      const DevicePtr at = memory_.inputs.address() + static_cast<DevicePtr>(copy % copies * bytes);
      return GemmTensors{{at, m, k, k, DType::bf16},
                         {at + static_cast<DevicePtr>(2 * m * k), n, k, k, DType::bf16},
                         {memory_.outputs.address(), m, n, n, DType::bf16}};
    };
    const GemmTensors first = tensors(0);
    const int64_t steps[] = {m};
    cuda::LibraryMatmul all(library_, first.a, first.b, first.c, steps, 0);
    cuda::LibraryMatmul fewer(library_, first.a, first.b, first.c, steps, 0, kFewerSms);
    const auto multiply = [&](cuda::LibraryMatmul& matmul, int copy) {
      const GemmTensors t = tensors(copy);
      matmul.enqueue(stream_, {t.a.address, t.b.address, t.c.address}, m, memory_.workspace);
    };
    multiply(all, 0);
    multiply(fewer, 0);
    const double about_us = time_us([&] { multiply(all, 1); }, 1);
    const int launches = std::clamp(static_cast<int>(kGraphUs / about_us), 2, kMostLaunches);
    struct Timed {
      std::string by;
      std::unique_ptr<cuda::Graph> graph;
      std::vector<double> us;
    };
    std::vector<Timed> timed;
    const auto add = [&](std::string by, const auto& launch) {
      timed.push_back({std::move(by),
                       std::make_unique<cuda::Graph>(stream_,
                                                     [&] {
                                                       for (int i = 0; i < launches; ++i) {
                                                         launch(i);
                                                       }
                                                     }),
                       {}});
    };
    add("cold_us", [&](int i) { multiply(all, i); });
    add("warm_us", [&](int) { multiply(all, 0); });
    add("fewer_sms_us", [&](int i) { multiply(fewer, i); });
    std::vector<std::unique_ptr<cuda::DeviceGemmTable>> tables;
    for (const auto& [rows, columns] : tiles_of(shape)) {
      const GemmConfig config = cuda::config_of(DType::bf16, DType::bf16, rows, columns);
      const cuda::GemmKernel& kernel = kernels_.of(config);
      const size_t base = tables.size();
      const int distinct = std::min({copies, launches, kMostTables});
      for (int copy = 0; copy < distinct; ++copy) {
        const GemmTensors t = tensors(copy);
        tables.push_back(std::make_unique<cuda::DeviceGemmTable>(
            cuda::dense_table(t.a, t.b, t.c, config, device_.num_sms(), 8)));
      }
      add(fmt::format("{}x{}", rows, columns), [&](int i) {
        const auto& table = *tables[base + static_cast<size_t>(i % distinct)];
        kernel.launch(stream_, table.num_blocks(), table.params(), true);
      });
    }
    // As hot as it is where such products follow each other.
    const int warm = about_us < 50 ? 2 : static_cast<int>(kWarmUs / about_us / launches) + 1;
    for (int i = 0; i < warm; ++i) timed[0].graph->launch(stream_);
    for (int round = 0; round < kRounds; ++round) {
      for (Timed& one : timed) {
        one.us.push_back(time_us([&] { one.graph->launch(stream_); }, launches));
      }
    }
    nlohmann::json row{{"m", m},
                       {"n", n},
                       {"k", k},
                       {"algorithm", words_.of(all.algorithm())},
                       {"fewer_sms_algorithm", words_.of(fewer.algorithm())}};
    std::string line;
    for (const Timed& one : timed) {
      row[one.by] = runtime::median_of(one.us);
      line += fmt::format(" {} {:.2f}", one.by, runtime::median_of(one.us));
    }
    fmt::print("{} {} {}:{}\n", m, n, k, line);
    std::fflush(stdout);
    return row;
  }

 private:
  template <typename Launch>
  double time_us(Launch launch, int count) {
    start_.record(stream_);
    launch();
    stop_.record(stream_);
    stream_.synchronize();
    return stop_.elapsed_us_since(start_) / count;
  }

  cuda::Device device_;
  cuda::Compiler compiler_;
  cuda::Stream stream_;
  cuda::TestData data_;
  cuda::Event start_, stop_;
  GemmKernels kernels_;
  cuda::MatmulLibrary library_;
  ProductMemory memory_;
  AlgorithmWords words_;
};

int main_checked(int argc, char** argv) {
  Arguments arguments("Products of cuBLAS and of our tiles alone");
  const ReportFile report("products", arguments);
  std::string file;
  arguments.add("--shapes", file, "a file with a line 'm n k' for each product of one GPU");
  if (const auto code = arguments.parse(argc, argv)) return *code;
  if (file.empty()) throw UsageError("products_bench needs --shapes FILE");
  report.check_writable();
  const std::vector<Shape> shapes = shapes_of_file(file);
  int64_t inputs = 1 << 28, outputs = 1 << 28;
  for (const auto& [m, n, k] : shapes) {
    inputs = std::max(inputs, kCacheBytes + 6 * (m + n) * k);
    outputs = std::max(outputs, 2 * m * n);
  }
  Bench bench(inputs, outputs);
  nlohmann::json rows = nlohmann::json::array();
  const nlohmann::json between = bench.between_kernels_us();
  const auto save = [&] {
    report.write(nlohmann::json{{"machine", bench.machine()},
                                {"data", "standard normal"},
                                {"fewer_sms", kFewerSms},
                                {"between_kernels_us", between},
                                {"rows", rows}});
  };
  for (const Shape& shape : shapes) {
    rows.push_back(bench.run(shape));
    if (rows.size() % 20 == 0) save();
  }
  save();
  return 0;
}

}  // namespace
}  // namespace stretto::bench

int main(int argc, char** argv) {
  return stretto::bench::run_program("products_bench",
                                     [&] { return stretto::bench::main_checked(argc, argv); });
}

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
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "arguments.h"
#include "core/file.h"
#include "gemm_launches.h"
#include "gpu/graph.h"
#include "gpu/library_matmul.h"
#include "gpu/sync_kernels.h"
#include "gpu/test_data.h"
#include "stretto/error.h"

namespace stretto::bench {
namespace {

using cuda::DeviceMemory;
using cuda::DevicePtr;
using cuda::Matrix;

constexpr int kMostLaunches = 40, kMostTables = 12;
constexpr int64_t kCacheBytes = 160 << 20;  // more than any L2
constexpr double kGraphUs = 12e3, kWarmUs = 40e3;
constexpr int kRounds = 5;
// SMs that movers leave: what cuBLAS is told in plans that have them.
constexpr int kFewerSms = 124;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

std::vector<Shape> shapes_of(const std::string& path) {
  std::istringstream lines(read_file(path, 1 << 20));
  std::vector<Shape> shapes;
  Shape shape{};
  while (lines >> shape.m >> shape.n >> shape.k) shapes.push_back(shape);
  if (shapes.empty() || !lines.eof()) throw UsageError(path + ": each line is 'm n k'");
  return shapes;
}

std::vector<std::array<int, 2>> tiles_of(const Shape& shape) {
  if (shape.m <= 64) return {{64, 64}, {64, 128}};
  if (shape.m < 512) return {{64, 64}, {128, 64}, {128, 128}};
  return {{128, 128}, {128, 192}, {128, 256}};
}

// What cuBLAS says of an algorithm: cublasLtMatmulAlgoConfigAttributes_t.
class Explained {
 public:
  Explained() : library_(cuda::open_cublas_lt()) {
    const cuda::Import imports[] = {
        {"cublasLtMatmulAlgoConfigGetAttribute", reinterpret_cast<void**>(&get_)}};
    if (const char* missing = cuda::import_all(library_, imports)) {
      throw SystemError(fmt::format("cuBLAS lacks {}", missing));
    }
  }
  nlohmann::json operator()(const cuda::LibraryMatmul::Algorithm& algorithm) const {
    constexpr std::pair<const char*, int> kWords[] = {
        {"id", 0},      {"tile", 1},   {"split_k", 2}, {"reduction", 3},
        {"swizzle", 4}, {"custom", 5}, {"stages", 6}};
    nlohmann::json words;
    for (const auto& [name, attribute] : kWords) {
      uint32_t value = 0;
      size_t written = 0;
      if (get_(&algorithm, attribute, &value, sizeof(value), &written) == 0) words[name] = value;
    }
    uint16_t small = 0;
    size_t written = 0;
    if (get_(&algorithm, 7, &small, sizeof(small), &written) == 0) words["inner"] = small;
    if (get_(&algorithm, 8, &small, sizeof(small), &written) == 0) words["cluster"] = small;
    return words;
  }

 private:
  cuda::DynamicLibrary library_;
  int (*get_)(const void*, int, void*, size_t, size_t*) = nullptr;
};

class Bench {
 public:
  Bench(int64_t input_bytes, int64_t output_bytes)
      : device_(0),
        data_(device_, compiler_),
        sync_(device_, compiler_),
        kernels_(device_, compiler_),
        library_(1),
        inputs_(static_cast<size_t>(input_bytes)),
        outputs_(static_cast<size_t>(output_bytes)),
        workspace_(cuda::kCublasWorkspaceBytes) {
    data_.fill(stream_, inputs_.address(), input_bytes / 2, DType::bf16, device::Fill::normal, 1);
    stream_.synchronize();
  }
  std::string machine() const { return device_.name(); }

  nlohmann::json run(const Shape& shape) {
    const auto [m, n, k] = shape;
    const int64_t bytes = 2 * (m + n) * k;
    const int copies =
        static_cast<int>(std::min<int64_t>(kMostLaunches, (kCacheBytes + bytes - 1) / bytes + 1));
    const auto tensors = [&](int copy) {
      const DevicePtr at = inputs_.address() + static_cast<DevicePtr>(copy % copies * bytes);
      return GemmTensors{{at, m, k, k, DType::bf16},
                         {at + static_cast<DevicePtr>(2 * m * k), n, k, k, DType::bf16},
                         {outputs_.address(), m, n, n, DType::bf16}};
    };
    const GemmTensors first = tensors(0);
    const int64_t steps[] = {m};
    cuda::LibraryMatmul all(library_, first.a, first.b, first.c, steps, 0);
    cuda::LibraryMatmul fewer(library_, first.a, first.b, first.c, steps, 0, kFewerSms);
    const auto multiply = [&](cuda::LibraryMatmul& matmul, int copy) {
      const GemmTensors t = tensors(copy);
      matmul.enqueue(stream_, {t.a.address, t.b.address, t.c.address}, m, workspace_);
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
                       {"algorithm", explained_(all.algorithm())},
                       {"fewer_sms_algorithm", explained_(fewer.algorithm())}};
    std::string line;
    for (const Timed& one : timed) {
      row[one.by] = median(one.us);
      line += fmt::format(" {} {:.2f}", one.by, median(one.us));
    }
    fmt::print("{} {} {}:{}\n", m, n, k, line);
    std::fflush(stdout);
    return row;
  }

  // Beside their work, kernels of graphs: each pattern `kRuns` times in a graph.
  nlohmann::json between_kernels() {
    constexpr int kRuns = 20;
    constexpr int64_t kM = 512, kN = 4096, kK = 4096, kHalf = kM / 2;
    const Matrix a{inputs_.address(), kM, kK, kK, DType::bf16};
    const Matrix b{inputs_.address() + 2 * kM * kK, kN, kK, kK, DType::bf16};
    const Matrix c{outputs_.address(), kM, kN, kN, DType::bf16};
    const Matrix half_a{a.address, kHalf, kK, kK, DType::bf16};
    const Matrix half_c{c.address, kHalf, kN, kN, DType::bf16};
    const int64_t rows[] = {kM}, half_rows[] = {kHalf};
    cuda::LibraryMatmul whole(library_, a, b, c, rows, 0);
    cuda::LibraryMatmul half(library_, half_a, b, half_c, half_rows, 0);
    const auto multiply = [&] {
      whole.enqueue(stream_, {a.address, b.address, c.address}, kM, workspace_);
    };
    const auto multiply_half = [&](int64_t first) {
      half.enqueue(stream_,
                   {a.address + static_cast<DevicePtr>(2 * first * kK), b.address,
                    c.address + static_cast<DevicePtr>(2 * first * kN)},
                   kHalf, workspace_);
    };
    const GemmConfig config = cuda::config_of(DType::bf16, DType::bf16, 128, 128);
    const cuda::DeviceGemmTable table(cuda::dense_table(a, b, c, config, device_.num_sms(), 8));
    const auto tiles = [&](bool overlap) {
      kernels_.of(config).launch(stream_, table.num_blocks(), table.params(), overlap);
    };
    std::vector<std::unique_ptr<cuda::Event>> events;
    const auto join = [&](const cuda::Stream& from, const cuda::Stream& to) {
      events.push_back(std::make_unique<cuda::Event>(false));
      events.back()->record(from);
      to.wait(*events.back());
    };
    const auto beside = [&](uint64_t ns, const auto& work) {
      join(stream_, other_);
      sync_.delay(other_, ns);
      work();
      join(other_, stream_);
    };
    nlohmann::json found;
    const auto time = [&](const char* name, const auto& pattern) {
      const cuda::Graph graph(stream_, [&] {
        for (int i = 0; i < kRuns; ++i) pattern();
      });
      std::vector<double> us;
      for (int round = 0; round < 9; ++round) {
        us.push_back(time_us([&] { graph.launch(stream_); }, kRuns));
      }
      found[name] = median(us);
      fmt::print("{}: {:.2f}\n", name, median(us));
    };
    time("delay_0", [&] { sync_.delay(stream_, 0); });
    time("delay_2", [&] { sync_.delay(stream_, 2000); });
    time("delay_5", [&] { sync_.delay(stream_, 5000); });
    time("delay_2_forked_empty_beside", [&] { beside(0, [&] { sync_.delay(stream_, 2000); }); });
    time("delay_5_forked_delay_5_beside",
         [&] { beside(5000, [&] { sync_.delay(stream_, 5000); }); });
    time("product", multiply);
    time("product_then_empty", [&] {
      multiply();
      sync_.delay(stream_, 0);
    });
    time("product_then_delay_5", [&] {
      multiply();
      sync_.delay(stream_, 5000);
    });
    time("product_forked_empty_beside", [&] { beside(0, multiply); });
    time("product_forked_delay_5_beside", [&] { beside(5000, multiply); });
    time("product_awaits_forked_empty", [&] {
      beside(0, [] {});
      multiply();
    });
    time("half", [&] { multiply_half(0); });
    time("halves", [&] {
      multiply_half(0);
      multiply_half(kHalf);
    });
    time("halves_second_awaits_forked_delay_5", [&] {
      join(stream_, other_);
      sync_.delay(other_, 5000);
      multiply_half(0);
      join(other_, stream_);
      multiply_half(kHalf);
    });
    time("tiles", [&] { tiles(false); });
    time("tiles_overlapped", [&] { tiles(true); });
    time("tiles_then_empty", [&] {
      tiles(true);
      sync_.delay(stream_, 0);
    });
    time("tiles_forked_empty_beside", [&] { beside(0, [&] { tiles(true); }); });
    time("product_then_tiles", [&] {
      multiply();
      tiles(true);
    });
    return found;
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
  cuda::Stream stream_, other_;
  cuda::TestData data_;
  cuda::SyncKernels sync_;
  cuda::Event start_, stop_;
  GemmKernels kernels_;
  cuda::MatmulLibrary library_;
  DeviceMemory inputs_, outputs_, workspace_;
  Explained explained_;
};

int main_checked(int argc, char** argv) {
  Arguments arguments("Products of cuBLAS and of our tiles alone");
  std::string out, commit, date, file;
  arguments.add("--shapes", file, "a file with a line 'm n k' for each product of one GPU");
  arguments.add("--out", out, "JSON file for the results");
  arguments.add("--commit", commit, "recorded with the results");
  arguments.add("--date", date, "recorded with the results");
  if (const auto code = arguments.parse(argc, argv)) return *code;
  if (file.empty()) throw UsageError("products_bench needs --shapes FILE");
  if (!out.empty()) check_writable(out);  // before the work whose result it is
  const std::vector<Shape> shapes = shapes_of(file);
  int64_t inputs = 1 << 28, outputs = 1 << 28;
  for (const auto& [m, n, k] : shapes) {
    inputs = std::max(inputs, kCacheBytes + 6 * (m + n) * k);
    outputs = std::max(outputs, 2 * m * n);
  }
  Bench bench(inputs, outputs);
  nlohmann::json rows = nlohmann::json::array();
  const nlohmann::json between = bench.between_kernels();
  const auto save = [&] {
    if (out.empty()) return;
    write_file(out, nlohmann::json{{"benchmark", "products"},
                                   {"machine", bench.machine()},
                                   {"commit", commit},
                                   {"date", date},
                                   {"data", "standard normal"},
                                   {"fewer_sms", kFewerSms},
                                   {"between_kernels_us", between},
                                   {"rows", rows}}
                            .dump(1) +
                        "\n");
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

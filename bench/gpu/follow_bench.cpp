// What follows a product: the GEMM kernel with followers against the same product without, and
// tasks of the mover kernel that norm against those that copy. One GPU.
//
//   follow_bench --out FILE [--quick]
//
// Each figure is the median of launches in turns, back to back in a graph. A product with swiglu
// makes both of its products, so the one without has as many columns as both.

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "arguments.h"
#include "gpu/compiler.h"
#include "gpu/gemm_kernel.h"
#include "gpu/graph.h"
#include "gpu/nvrtc_api.h"
#include "gpu/sync_kernels.h"
#include "gpu/test_data.h"
#include "launch/gemm_choice.h"
#include "measure/spread.h"
#include "report_file.h"
#include "tables/gemm_table.h"
#include "tables/mover_table.h"

namespace stretto::bench {
namespace {

using cuda::DeviceMemory;
using device::Follower;
using device::GemmConfig;

constexpr int kLaunchesPerGraph = 10;

struct Shape {
  int64_t m, f, k;  // f: columns of each product
};

// What is timed in turns with others.
struct Contestant {
  std::string name;
  std::unique_ptr<cuda::Graph> graph;
  double bytes = 0, flops = 0;  // of a launch
  std::vector<double> times;
};

class FollowBench {
 public:
  explicit FollowBench(int rounds) : device_(0), data_(device_, compiler_), rounds_(rounds) {
    norms_ = kernel_of(cuda::mover_source(true));
    plain_ = kernel_of(cuda::mover_source());
  }

  nlohmann::json run_gemm(const Shape& shape, int rows, int columns, device::Shared shared) {
    const auto [m, f, k] = shape;
    const Buffers buffers(*this, shape);
    std::vector<Contestant> all;
    const auto add = [&](const std::string& name, Follower follower, bool bias) {
      GemmConfig config = cuda::config_of(DType::bf16, DType::bf16, rows, columns);
      config.shared = shared;
      config.follower = follower;
      config.bias = bias;
      const bool two = follower == Follower::swiglu;
      const int64_t n = two ? f : 2 * f;
      cuda::FollowerTensors tensors;
      if (two) tensors.other_b = {buffers.b.address() + uint64_t(f * k) * 2, f, k, k, DType::bf16};
      if (bias) tensors.bias[0] = tensors.bias[1] = buffers.bias.address();
      const cuda::DeviceGemmTable& table =
          *tables_.emplace_back(std::make_unique<cuda::DeviceGemmTable>(cuda::dense_table(
              {buffers.a.address(), m, k, k, DType::bf16},
              {buffers.b.address(), n, k, k, DType::bf16},
              {buffers.c.address(), m, n, n, DType::bf16}, config, device_.num_sms(), 8, tensors)));
      const cuda::GemmKernel& kernel =
          *kernels_.emplace_back(std::make_unique<cuda::GemmKernel>(device_, compiler_, config));
      Contestant& one = all.emplace_back();
      one.name = name;
      one.flops = 4.0 * double(m) * double(f) * double(k);
      one.graph = std::make_unique<cuda::Graph>(stream_, [&] {
        for (int i = 0; i < kLaunchesPerGraph; ++i) {
          kernel.launch(stream_, table.num_blocks(), table.params(), true);
        }
      });
    };
    add("none", Follower::none, false);
    add("swiglu", Follower::swiglu, false);
    add("swiglu bias", Follower::swiglu, true);
    add("silu", Follower::silu, false);
    add("gelu", Follower::gelu, false);
    add("bias", Follower::none, true);
    add("bias gelu", Follower::gelu, true);
    nlohmann::json row = time_all(all);
    row["m"] = m;
    row["f"] = f;
    row["k"] = k;
    row["tile"] = fmt::format("{}x{}", rows, columns);
    row["shared"] = shared == device::Shared::b ? "b" : "none";
    fmt::print("{:5} 2x{:5} {:5}  {:7} {}\n", m, f, k, std::string(row["tile"]),
               std::string(row["shared"]));
    print(all);
    tables_.clear();
    kernels_.clear();
    return row;
  }

  nlohmann::json run_norm(int64_t rows, int64_t columns, int sources, int blocks) {
    DeviceMemory from(size_t(sources * rows * columns * 2)), to(size_t(2 * rows * columns * 2));
    DeviceMemory weights(size_t(columns * 2));
    data_.fill(stream_, from.address(), sources * rows * columns, DType::bf16, device::Fill::normal,
               1);
    data_.fill(stream_, weights.address(), columns, DType::bf16, device::Fill::normal, 2);
    std::vector<std::unique_ptr<cuda::DeviceMoverTable>> tables;
    std::vector<Contestant> all;
    const auto add = [&](const std::string& name, bool norms, int loaded, int stored) {
      cuda::MoverTable table;
      table.regions.resize(1);
      table.blocks.resize(size_t(blocks));
      const int64_t most = std::max<int64_t>(1, std::min<int64_t>(64, rows / blocks));
      const auto row_bytes = uint64_t(columns * 2);
      for (int64_t row = 0, t = 0; row < rows; row += most, ++t) {
        device::MoverTask task{};
        task.rows = uint32_t(std::min(most, rows - row));
        task.columns = uint32_t(columns);
        task.first_region = uint32_t(table.regions[0].size());
        task.num_sources = uint16_t(loaded);
        task.num_destinations = uint16_t(stored);
        task.num_normed = norms ? 1 : 0;
        task.epsilon = 1e-5f;
        task.vectors = 1;
        for (int s = 0; s < loaded; ++s) {
          table.regions[0].push_back(
              {from.address() + uint64_t(s * rows + row) * row_bytes, row_bytes});
        }
        for (int d = 0; d < stored; ++d) {
          table.regions[0].push_back(
              {to.address() + uint64_t(d * rows + row) * row_bytes, row_bytes});
        }
        if (norms) {
          table.regions[0].push_back({weights.address(), 0});
        } else {  // as one row
          task.columns *= task.rows;
          task.rows = 1;
        }
        table.blocks[size_t(t % blocks)].push_back(task);
      }
      const auto& made = *tables.emplace_back(
          std::make_unique<cuda::DeviceMoverTable>(table, device::SignalSpace{}));
      Contestant& one = all.emplace_back();
      one.name = name;
      one.bytes = double(rows * columns * 2) * (loaded + stored);
      one.graph = std::make_unique<cuda::Graph>(stream_, [&] {
        for (int i = 0; i < kLaunchesPerGraph; ++i) {
          (norms ? norms_ : plain_)
              ->launch(stream_, made.num_blocks(), device::kMoverThreads, 1, &made.params());
        }
      });
    };
    add("copy", false, 1, 1);
    add("norm", true, 1, 1);
    if (sources > 1) {
      add(fmt::format("reduce {}", sources), false, sources, 1);
      add(fmt::format("reduce {} and norm", sources), true, sources, 2);
    }
    nlohmann::json row = time_all(all);
    row["rows"] = rows;
    row["columns"] = columns;
    row["blocks"] = blocks;
    fmt::print("{} rows of {}, {} blocks\n", rows, columns, blocks);
    print(all);
    return row;
  }

  nlohmann::json machine() const { return {{"gpu", device_.name()}, {"sms", device_.num_sms()}}; }

 private:
  struct Buffers {
    Buffers(FollowBench& bench, const Shape& shape)
        : a(size_t(shape.m * shape.k * 2)),
          b(size_t(2 * shape.f * shape.k * 2)),
          c(size_t(shape.m * 2 * shape.f * 2)),
          bias(size_t(2 * shape.f * 2)) {
      const auto fill = [&](const DeviceMemory& to, int64_t count, uint64_t seed) {
        bench.data_.fill(bench.stream_, to.address(), count, DType::bf16, device::Fill::normal,
                         seed);
      };
      fill(a, shape.m * shape.k, 1);
      fill(b, 2 * shape.f * shape.k, 2);
      fill(bias, 2 * shape.f, 3);
    }
    DeviceMemory a, b, c, bias;
  };

  std::unique_ptr<cuda::Kernel> kernel_of(const std::string& source) {
    return std::make_unique<cuda::Kernel>(compiler_.compile(source, device_.arch()).cubin,
                                          "stretto_mover", device::kMoverSharedBytes);
  }

  nlohmann::json time_all(std::vector<Contestant>& all) {
    for (int round = -1; round < rounds_; ++round) {  // the first is not counted
      for (Contestant& one : all) {
        start_.record(stream_);
        one.graph->launch(stream_);
        stop_.record(stream_);
        stream_.synchronize();
        if (round >= 0) one.times.push_back(stop_.elapsed_us_since(start_) / kLaunchesPerGraph);
      }
    }
    nlohmann::json times;
    for (Contestant& one : all) {
      const runtime::Spread spread = runtime::spread_of(one.times);
      times[one.name] = {
          {"time_us", spread.median}, {"low_us", spread.low}, {"high_us", spread.high}};
    }
    return {{"times", times}};
  }

  static void print(const std::vector<Contestant>& all) {
    const double first = runtime::median_of(all.front().times);
    for (const Contestant& one : all) {
      const double us = runtime::median_of(one.times);
      fmt::print("    {:20} {:9.2f} us  {:6.3f}  {}\n", one.name, us, us / first,
                 one.flops > 0 ? fmt::format("{:5.0f} TFLOPS", one.flops / us * 1e-6)
                               : fmt::format("{:6.0f} GB/s", one.bytes / us * 1e-3));
    }
    std::fflush(stdout);
  }

  cuda::Device device_;
  cuda::Compiler compiler_;
  cuda::TestData data_;
  cuda::Stream stream_;
  cuda::Event start_, stop_;
  std::unique_ptr<cuda::Kernel> norms_, plain_;
  std::vector<std::unique_ptr<cuda::DeviceGemmTable>> tables_;
  std::vector<std::unique_ptr<cuda::GemmKernel>> kernels_;
  int rounds_;
};

int main_checked(int argc, char** argv) {
  Arguments arguments("What follows a product, and norms of rows");
  const ReportFile report("follow", arguments);
  bool quick = false;
  arguments.add("--quick", quick, "fewer shapes and rounds");
  if (const auto code = arguments.parse(argc, argv)) return *code;
  report.check_writable();

  FollowBench bench(quick ? 5 : 15);
  nlohmann::json gemms = nlohmann::json::array(), norms = nlohmann::json::array();
  std::vector<Shape> shapes = {{4096, 4096, 4096}};
  if (!quick)
    shapes = {{8192, 3584, 8192}, {4096, 4096, 4096}, {2048, 1792, 4096}, {64, 7168, 4096}};
  for (const Shape& shape : shapes) {
    gemms.push_back(bench.run_gemm(shape, shape.m <= 64 ? 64 : 128, 256, device::Shared::none));
    if (shape.m > 64) gemms.push_back(bench.run_gemm(shape, 128, 256, device::Shared::b));
    if (!quick) gemms.push_back(bench.run_gemm(shape, 128, 128, device::Shared::none));
  }
  for (const int64_t columns : {2048, 4096, 8192, 16384}) {
    const int64_t rows = (int64_t{1} << 27) / columns;
    norms.push_back(bench.run_norm(rows, columns, 3, 132));
    if (quick) continue;
    norms.push_back(bench.run_norm(rows / 4, columns, 9, 132));
    norms.push_back(bench.run_norm(rows / 8, columns, 1, 16));
  }
  report.write(nlohmann::json{{"machine", bench.machine()},
                              {"compiler", cuda::compiler_version()},
                              {"launches_per_graph", kLaunchesPerGraph},
                              {"data", "standard normal"},
                              {"gemms", gemms},
                              {"norms", norms}});
  return 0;
}

}  // namespace
}  // namespace stretto::bench

int main(int argc, char** argv) {
  return stretto::bench::run_program("follow_bench",
                                     [&] { return stretto::bench::main_checked(argc, argv); });
}

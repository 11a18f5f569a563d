// The kernel of few rows alone against cuBLAS, on weights that are in no cache and on ones that
// may be: every configuration is verified, then timed in turns.
//
//   few_rows_bench [--out results.json] [--shapes MxNxK,...] [--all]
//
// Vectors of two ranks go into memory of this GPU: what links cost is not in it. *early*: rows go
// into the result, and weights are asked for before the kernel ahead has ended.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "arguments.h"
#include "gpu/cublas.h"
#include "gpu/few_rows_kernel.h"
#include "gpu/graph.h"
#include "gpu/test_data.h"
#include "measure/spread.h"
#include "product_shape.h"
#include "report_file.h"

namespace stretto::bench {
namespace {

using cuda::DeviceMemory;
using cuda::DevicePtr;
using cuda::Matrix;
using device::FewRowsConfig;

constexpr int kLaunches = 12;
constexpr int64_t kCacheBytes = 200 << 20;  // more than any L2

std::vector<Shape> default_shapes() {
  return {{16, 8192, 4096},  {64, 8192, 4096}, {128, 8192, 4096}, {64, 5120, 3456},
          {64, 4096, 2048},  {17, 8192, 1024}, {111, 5120, 3200}, {32, 4096, 7168},
          {64, 8192, 14336}, {64, 2560, 8192}};
}

// Tiles of which an SM has hardly more than one, in blocks that share what they load.
template <typename Add>
void add_sharing(const Shape& shape, int sms, const Add& add) {
  for (const int columns : {64, 96, 128}) {
    for (const int parts : {1, 2, 3, 4, 5, 6, 8}) {  // of the rows
      const int rows = static_cast<int>((shape.m + parts * 16 - 1) / (parts * 16) * 16);
      const int64_t tiles = (shape.n + columns - 1) / columns * parts;
      if (rows > 256 || tiles > 2 * sms) continue;
      for (const int splits : {2, 3, 4}) {
        if (tiles * splits > sms * 5 / 4 || tiles * splits < sms / 2) continue;
        add({columns, rows, 2, columns > 64 ? 2 : 1, splits, 1, 1, 1, true});
      }
      if (tiles < sms / 3) continue;
      for (const int row_blocks : {1, 2, 4}) {
        for (const int column_blocks : {1, 2, 4}) {
          if (parts % row_blocks != 0 || row_blocks * column_blocks > 4) continue;
          for (const int blocks : {1, 2}) {
            if (blocks == 2 && (columns > 64 || tiles <= sms)) continue;
            add({columns, rows, 2, 2, 1, row_blocks, column_blocks, blocks, true});
          }
        }
      }
    }
  }
}

std::vector<FewRowsConfig> configs_of(const Shape& shape, int sms, bool all) {
  const cuda::FewRowsShape few{shape.m, shape.n, shape.k, DType::bf16};
  std::vector<FewRowsConfig> list{cuda::fitted(few, sms)};
  cuda::FewRowsShape sent = few;  // between two ranks, of a sum that both take
  sent.sent = 1;
  if (const FewRowsConfig other = cuda::fitted(sent, sms); other.sends_beside()) {
    list.push_back(other);
  }
  if (!all) return list;
  const auto add = [&](FewRowsConfig config) {
    const int room = 220 * 1024 / config.blocks_per_sm;
    config.stages =
        std::min(12, (room - 2048) / (device::layout_of(config).a_bytes + config.rows * 128));
    if (config.consumers == 2 && !config.is_wide()) config.stages -= config.stages % 2;
    if (!cuda::why_illegal(config).empty()) return;
    if (device::layout_of(config).shared_bytes > room) return;
    if (std::find(list.begin(), list.end(), config) == list.end()) list.push_back(config);
  };
  if (shape.m > 80) add_sharing(shape, sms, add);
  if (shape.m > 128) return list;
  const int rows = static_cast<int>((shape.m + 15) / 16 * 16);
  for (const int columns : {16, 24, 32, 40, 48, 56, 64}) {
    for (const int splits : {1, 2, 3, 4}) {
      for (const int blocks : {1, 2}) {
        const int64_t tiles = (shape.n + columns - 1) / columns;
        if (tiles * splits > 4 * sms || tiles * splits < sms / 2) continue;
        add({columns, rows, 2, splits > 1 ? 1 : 2, splits, 1, 1, blocks, true});
      }
    }
  }
  return list;
}

void compile_all(const std::vector<Shape>& shapes, bool all, const std::string& arch) {
  constexpr int kSms = 132;
  const cuda::Compiler compiler;
  for (const Shape& shape : shapes) {
    for (const FewRowsConfig& config : configs_of(shape, kSms, all)) {
      const cuda::CompiledKernel kernel = compiler.compile(cuda::few_rows_source(config), arch);
      fmt::print("{:45} {:5.0f} ms, {} bytes spilled{}\n", cuda::describe(config),
                 kernel.compile_ms, cuda::spilled_bytes(kernel.log),
                 kernel.cached ? ", cached" : "");
    }
  }
}

class Bench {
 public:
  explicit Bench(bool all) : device_(0), data_(device_, compiler_), cublas_(stream_), all_(all) {}
  std::string machine() const { return device_.name(); }

  nlohmann::json run(const Shape& shape) {
    const auto [m, n, k] = shape;
    const int64_t weights = n * k * 2;
    const auto copies = static_cast<int>(std::min<int64_t>(kLaunches, kCacheBytes / weights + 2));
    DeviceMemory a(static_cast<size_t>(m * k * 2)), b(static_cast<size_t>(weights * copies)),
        c(static_cast<size_t>(m * n * 2)), slots(static_cast<size_t>(2 * m * n * 2)),
        reference(static_cast<size_t>(m * n * 4)), state(8);
    const uint64_t zero = 0;
    state.upload(&zero, 8);
    data_.fill(stream_, a.address(), m * k, DType::bf16, device::Fill::normal, 1);
    for (int i = 0; i < copies; ++i) {
      data_.fill(stream_, b.address() + static_cast<DevicePtr>(i * weights), n * k, DType::bf16,
                 device::Fill::normal, 2);
    }
    const Matrix tokens{a.address(), m, k, k, DType::bf16};
    const auto weight = [&](int i) {
      return Matrix{b.address() + static_cast<DevicePtr>(i % copies * weights), n, k, k,
                    DType::bf16};
    };
    const Matrix result{c.address(), m, n, n, DType::bf16};
    cublas_.multiply(tokens, weight(0), {reference.address(), m, n, n, DType::fp32});
    device::RowTargets targets{};
    targets.slots[0] = slots.address();
    targets.slots[1] = slots.address() + static_cast<DevicePtr>(m * n * 2);
    targets.state = state.as<const device::uint64>();
    targets.row_vectors = static_cast<device::uint32>(n / 8);

    const auto graph_of = [&](const auto& launch, int distinct) {
      return std::make_unique<cuda::Graph>(stream_, [&] {
        for (int i = 0; i < kLaunches; ++i) launch(weight(distinct == 1 ? 0 : i));
      });
    };
    const auto by_cublas = [&](const Matrix& w) { cublas_.multiply(tokens, w, result); };
    struct Timed {
      std::string name;
      std::unique_ptr<cuda::FewRowsKernel> kernel;
      std::unique_ptr<cuda::Graph> cold, warm, early;
      std::vector<double> cold_us, warm_us, early_us;
      double error = 0;
    };
    std::vector<Timed> timed;
    timed.push_back({"cublas",
                     nullptr,
                     graph_of(by_cublas, 2),
                     graph_of(by_cublas, 1),
                     nullptr,
                     {},
                     {},
                     {},
                     0});
    for (const FewRowsConfig& config : configs_of(shape, device_.num_sms(), all_)) {
      Timed one;
      one.name = cuda::describe(config);
      one.kernel = std::make_unique<cuda::FewRowsKernel>(device_, compiler_, config);
      const auto launch = [&, kernel = one.kernel.get()](const Matrix& w) {
        kernel->launch(stream_, {tokens, w}, targets, 0, 2, true);
      };
      cuda::check(cuda::driver().fill_bytes(slots.address(), 0xff, static_cast<size_t>(4 * m * n),
                                            stream_.handle()),
                  "poison the slots");
      launch(weight(0));
      for (const DevicePtr slot : {targets.slots[0], targets.slots[1]}) {
        one.error =
            std::max(one.error, cuda::relative_error(data_.compare(stream_, slot, DType::bf16,
                                                                   reference.address(), m * n)));
      }
      const auto plain = [&, kernel = one.kernel.get()](const Matrix& w) {
        kernel->launch(stream_, {tokens, w}, cuda::row_targets(result), 0, 1, true, true);
      };
      cuda::check(cuda::driver().fill_bytes(result.address, 0xff, static_cast<size_t>(2 * m * n),
                                            stream_.handle()),
                  "poison the result");
      plain(weight(0));
      one.error = std::max(one.error,
                           cuda::relative_error(data_.compare(stream_, result.address, DType::bf16,
                                                              reference.address(), m * n)));
      one.early = graph_of(plain, 2);
      one.cold = graph_of(launch, 2);
      one.warm = graph_of(launch, 1);
      timed.push_back(std::move(one));
    }
    for (int round = 0; round < 9; ++round) {
      for (Timed& one : timed) {
        one.cold_us.push_back(time_us(*one.cold));
        one.warm_us.push_back(time_us(*one.warm));
        one.early_us.push_back(one.early ? time_us(*one.early) : one.cold_us.back());
      }
    }
    std::sort(timed.begin() + 1, timed.end(), [](const Timed& x, const Timed& y) {
      return runtime::median_of(x.cold_us) < runtime::median_of(y.cold_us);
    });
    nlohmann::json rows = nlohmann::json::array();
    fmt::print("{} {} {}: bytes at 4.3 TB/s {:.1f}\n", m, n, k,
               static_cast<double>(weights) / 4.3e6);
    for (size_t i = 0; i < timed.size(); ++i) {
      const Timed& one = timed[i];
      if (i < 7 || one.error > 1e-2) {
        fmt::print("   {:45} cold {:6.2f} warm {:6.2f} early {:6.2f} err {:.1e}{}\n", one.name,
                   runtime::median_of(one.cold_us), runtime::median_of(one.warm_us),
                   runtime::median_of(one.early_us), one.error,
                   one.kernel ? fmt::format(" regs {} spill {}", one.kernel->kernel().registers(),
                                            one.kernel->kernel().local_bytes())
                              : "");
      }
      rows.push_back({{"m", m},
                      {"n", n},
                      {"k", k},
                      {"by", one.name},
                      {"cold_us", runtime::median_of(one.cold_us)},
                      {"warm_us", runtime::median_of(one.warm_us)},
                      {"early_us", runtime::median_of(one.early_us)},
                      {"error", one.error}});
    }
    std::fflush(stdout);
    return rows;
  }

 private:
  double time_us(const cuda::Graph& graph) {
    start_.record(stream_);
    graph.launch(stream_);
    stop_.record(stream_);
    stream_.synchronize();
    return stop_.elapsed_us_since(start_) / kLaunches;
  }

  cuda::Device device_;
  cuda::Compiler compiler_;
  cuda::Stream stream_;
  cuda::TestData data_;
  cuda::Cublas cublas_;
  cuda::Event start_, stop_;
  bool all_;
};

int main_checked(int argc, char** argv) {
  Arguments arguments("The kernel of few rows alone against cuBLAS");
  const ReportFile report("few_rows", arguments);
  std::string arch;
  std::vector<std::string> texts;
  bool all = false;
  arguments.add("--shapes", texts, "MxNxK, of one GPU");
  arguments.add("--compile-only", arch, "fill the kernel cache for this architecture and stop");
  arguments.add("--all", all, "every configuration, not only the one that is chosen");
  if (const auto code = arguments.parse(argc, argv)) return *code;
  report.check_writable();
  std::vector<Shape> shapes = shapes_from(texts);
  if (shapes.empty()) shapes = default_shapes();
  if (!arch.empty()) {
    compile_all(shapes, all, arch);
    return 0;
  }
  Bench bench(all);
  nlohmann::json rows = nlohmann::json::array();
  for (const Shape& shape : shapes) {
    for (nlohmann::json& row : bench.run(shape)) rows.push_back(std::move(row));
  }
  report.write(nlohmann::json{{"machine", bench.machine()},
                              {"launches_per_graph", kLaunches},
                              {"data", "standard normal"},
                              {"rows", rows}});
  return 0;
}

}  // namespace
}  // namespace stretto::bench

int main(int argc, char** argv) {
  return stretto::bench::run_program("few_rows_bench",
                                     [&] { return stretto::bench::main_checked(argc, argv); });
}

#include "between_kernels.h"

#include <fmt/format.h>

#include "gpu/sync_kernels.h"
#include "measure/spread.h"

namespace stretto::bench {
namespace {

using cuda::DevicePtr;
using cuda::Matrix;

constexpr int kRuns = 20;  // of a pattern in a graph
constexpr int kRounds = 9;
constexpr int64_t kM = 512, kN = 4096, kK = 4096, kHalf = kM / 2;

}  // namespace

nlohmann::json between_kernels_us(GemmKernels& kernels, cuda::MatmulLibrary& library,
                                  const cuda::Stream& stream, ProductMemory& memory) {
  const cuda::Device& device = kernels.device();
  const cuda::SyncKernels sync(device, kernels.compiler());
  const cuda::Stream other;
  cuda::Event start, stop;
  const Matrix a{memory.inputs.address(), kM, kK, kK, DType::bf16};
  const Matrix b{memory.inputs.address() + 2 * kM * kK, kN, kK, kK, DType::bf16};
  const Matrix c{memory.outputs.address(), kM, kN, kN, DType::bf16};
  const Matrix half_a{a.address, kHalf, kK, kK, DType::bf16};
  const Matrix half_c{c.address, kHalf, kN, kN, DType::bf16};
  const int64_t rows[] = {kM}, half_rows[] = {kHalf};
  cuda::LibraryMatmul whole(library, a, b, c, rows, 0);
  cuda::LibraryMatmul half(library, half_a, b, half_c, half_rows, 0);
  const auto multiply = [&] {
    whole.enqueue(stream, {a.address, b.address, c.address}, kM, memory.workspace);
  };
  const auto multiply_half = [&](int64_t first) {
    half.enqueue(stream,
                 {a.address + static_cast<DevicePtr>(2 * first * kK), b.address,
                  c.address + static_cast<DevicePtr>(2 * first * kN)},
                 kHalf, memory.workspace);
  };
  const GemmConfig config = cuda::config_of(DType::bf16, DType::bf16, 128, 128);
  const cuda::DeviceGemmTable table(cuda::dense_table(a, b, c, config, device.num_sms(), 8));
  const auto tiles = [&](bool overlap) {
    kernels.of(config).launch(stream, table.num_blocks(), table.params(), overlap);
  };
  std::vector<std::unique_ptr<cuda::Event>> events;
  const auto join = [&](const cuda::Stream& from, const cuda::Stream& to) {
    events.push_back(std::make_unique<cuda::Event>(false));
    events.back()->record(from);
    to.wait(*events.back());
  };
  const auto beside = [&](uint64_t ns, const auto& work) {
    join(stream, other);
    sync.delay(other, ns);
    work();
    join(other, stream);
  };
  nlohmann::json found;
  const auto time = [&](const char* name, const auto& pattern) {
    const cuda::Graph graph(stream, [&] {
      for (int i = 0; i < kRuns; ++i) pattern();
    });
    std::vector<double> us;
    for (int round = 0; round < kRounds; ++round) {
      start.record(stream);
      graph.launch(stream);
      stop.record(stream);
      stream.synchronize();
      us.push_back(stop.elapsed_us_since(start) / kRuns);
    }
    const double median = runtime::median_of(us);
    found[name] = median;
    fmt::print("{}: {:.2f}\n", name, median);
  };
  time("delay_0", [&] { sync.delay(stream, 0); });
  time("delay_2", [&] { sync.delay(stream, 2000); });
  time("delay_5", [&] { sync.delay(stream, 5000); });
  time("delay_2_forked_empty_beside", [&] { beside(0, [&] { sync.delay(stream, 2000); }); });
  time("delay_5_forked_delay_5_beside", [&] { beside(5000, [&] { sync.delay(stream, 5000); }); });
  time("product", multiply);
  time("product_then_empty", [&] {
    multiply();
    sync.delay(stream, 0);
  });
  time("product_then_delay_5", [&] {
    multiply();
    sync.delay(stream, 5000);
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
    join(stream, other);
    sync.delay(other, 5000);
    multiply_half(0);
    join(other, stream);
    multiply_half(kHalf);
  });
  time("tiles", [&] { tiles(false); });
  time("tiles_overlapped", [&] { tiles(true); });
  time("tiles_then_empty", [&] {
    tiles(true);
    sync.delay(stream, 0);
  });
  time("tiles_forked_empty_beside", [&] { beside(0, [&] { tiles(true); }); });
  time("product_then_tiles", [&] {
    multiply();
    tiles(true);
  });
  return found;
}

}  // namespace stretto::bench

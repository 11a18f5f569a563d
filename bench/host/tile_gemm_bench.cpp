// Rate of the emulator's tile GEMM on one core, on random data.
#include <benchmark/benchmark.h>

#include <random>
#include <vector>

#include "tasks/tile_gemm.h"

namespace stretto::bench {
namespace {

std::vector<uint16_t> random_bf16(int64_t count, uint32_t seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<uint16_t> values(static_cast<size_t>(count));
  for (uint16_t& value : values) {
    const float wide = normal(generator);
    uint32_t bits = 0;
    static_assert(sizeof bits == sizeof wide);
    __builtin_memcpy(&bits, &wide, sizeof bits);
    value = static_cast<uint16_t>(bits >> 16);
  }
  return values;
}

void tile_gemm(benchmark::State& state) {
  const int64_t m = state.range(0), n = state.range(1), k = state.range(2);
  const std::vector<uint16_t> a = random_bf16(m * k, 1), b = random_bf16(n * k, 2);
  std::vector<uint16_t> c(static_cast<size_t>(m * n));
  tasks::TileGemm gemm;
  for (auto _ : state) {
    gemm.run(m, n, k, {a.data(), k, DType::bf16}, {b.data(), k, DType::bf16},
             {c.data(), n, DType::bf16});
    benchmark::ClobberMemory();
  }
  state.SetLabel(tasks::simd_name());
  state.counters["FLOP/s"] = benchmark::Counter(2.0 * static_cast<double>(m * n * k),
                                                benchmark::Counter::kIsIterationInvariantRate,
                                                benchmark::Counter::kIs1000);
}

BENCHMARK(tile_gemm)
    ->ArgNames({"m", "n", "k"})
    ->Args({128, 256, 512})
    ->Args({128, 256, 3584})
    ->Args({64, 128, 1024})
    ->Args({37, 61, 1000})
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace stretto::bench

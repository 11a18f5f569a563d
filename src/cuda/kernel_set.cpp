#include "cuda/kernel_set.h"

#include <fmt/format.h>

#include "cuda/gemm_choice.h"
#include "cuda/gemm_kernel.h"
#include "cuda/sync_kernels.h"
#include "cuda/test_data.h"

namespace stretto::cuda {
namespace {

struct Tile {
  int rows, columns;
};
constexpr Tile kTiles[] = {{128, 256}, {128, 128}, {128, 64}, {64, 128}, {64, 64}};
constexpr Tile kReducedTiles[] = {{128, 256}, {128, 192}, {128, 128}};
constexpr Tile kSplitTiles[] = {{128, 192}, {128, 128}};

}  // namespace

const std::vector<std::string>& known_archs() {
  static const std::vector<std::string> archs = {"sm_90a", "sm_89", "sm_80"};
  return archs;
}

std::vector<KernelEntry> kernel_set(const std::string& arch) {
  const bool hopper = arch == "sm_90a";
  std::vector<KernelEntry> set;
  const auto add = [&](std::string name, auto source, bool needs_hopper) {
    if (needs_hopper && !hopper) {
      set.push_back({std::move(name), "", "it needs Hopper's TMA and wgmma (sm_90a)"});
    } else {
      set.push_back({std::move(name), source(), ""});
    }
  };
  for (const DType input : {DType::bf16, DType::fp16}) {
    for (const DType output : {input, DType::fp32}) {
      for (const Tile& tile : kTiles) {
        const device::GemmConfig config = config_of(input, output, tile.rows, tile.columns);
        add(
            "gemm " + describe(config), [&] { return gemm_source(config); }, true);
      }
    }
  }
  for (const DType input : {DType::bf16, DType::fp16}) {
    for (const Tile& tile : kTiles) {
      device::GemmConfig config = config_of(input, input, tile.rows, tile.columns);
      config.serves = true;
      add(
          "gemm " + describe(config), [&] { return gemm_source(config); }, true);
    }
  }
  // Reductions that add to own tiles what the others sent, on 2, 4 and 8 ranks.
  for (const DType input : {DType::bf16, DType::fp16}) {
    for (const Tile& tile : kReducedTiles) {
      for (const int sources : {1, 3, 7}) {
        device::GemmConfig config = config_of(input, input, tile.rows, tile.columns);
        config.adds = sources;
        add(
            "gemm " + describe(config), [&] { return gemm_source(config); }, true);
      }
    }
  }
  // Tiles whose K is split, for gathers and for reductions on 8 ranks.
  for (const Tile& tile : kSplitTiles) {
    for (const int sources : {0, 7}) {
      device::GemmConfig config = config_of(DType::bf16, DType::bf16, tile.rows, tile.columns);
      config.adds = sources;
      config.splits = true;
      add(
          "gemm " + describe(config), [&] { return gemm_source(config); }, true);
    }
  }
  add("mover", mover_source, true);
  add("stream waits and notifies", sync_source, false);
  add("test data", test_data_source, false);
  return set;
}

}  // namespace stretto::cuda

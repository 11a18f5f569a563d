#include "cuda/gemm_choice.h"

#include <fmt/format.h>

#include <algorithm>

#include "cuda/device_types.h"
#include "stretto/error.h"

namespace stretto::cuda {

using device::GemmConfig;
using device::OutputType;

uint32_t blocks_of_k(const Plan& plan, const Instr& gemm) {
  const auto columns = static_cast<uint32_t>(plan.reads(gemm).front().cols());
  return (columns + device::kTileK - 1) / device::kTileK;
}

GemmConfig config_for(const Plan& plan, const TileSums& sums, const GemmNeeds& needs, bool serves) {
  // Parts of a tile need stores of 128 bytes a row.
  const int columns = needs.parts || serves ? (needs.columns + 63) / 64 * 64 : needs.columns;
  GemmConfig config =
      config_of(plan.op.dtype, needs.stored.value_or(plan.op.dtype), needs.rows, columns);
  config.serves = serves;
  config.adds = sums.sources();
  config.splits = sums.any_ranges_kept();
  config.phases = sums.any_phases();
  config.moves = needs.moves;
  if (plan.cluster > 1) config.shared = device::Shared::b;
  return config;
}

GemmConfig config_of(DType input, DType output, int rows, int columns) {
  // Stores end where the plan's regions end.
  GemmConfig config;
  config.shared = device::Shared::none;
  config.bf16 = input == DType::bf16;
  config.output = device_type<OutputType>(output);
  constexpr int kRows[] = {64, 128, 256};
  constexpr int kColumns[] = {64, 96, 128, 160, 192, 224, 256};
  const auto tall =
      std::find_if(std::begin(kRows), std::end(kRows), [&](int x) { return x >= rows; });
  const auto wide =
      std::find_if(std::begin(kColumns), std::end(kColumns), [&](int x) { return x >= columns; });
  if (tall == std::end(kRows) || wide == std::end(kColumns) || *tall * *wide > 128 * 256) {
    throw UsageError(
        fmt::format("no kernel has tiles of {}x{}: up to 128x256 and 256x128", rows, columns));
  }
  config.tile_m = *tall;
  config.tile_n = *wide;
  config.consumers = config.tile_m >= 128 ? 2 : 1;
  config.stages = 8;
  while (device::layout_of(config).shared_bytes > 227 * 1024) --config.stages;
  return config;
}

}  // namespace stretto::cuda

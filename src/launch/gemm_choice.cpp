#include "launch/gemm_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "gpu/device_types.h"
#include "gpu/kernel_words.h"
#include "stretto/error.h"

namespace stretto::cuda {

static_assert(kBlockOfK == device::kTileK);

using device::GemmConfig;
using device::OutputType;

namespace {

struct Tile {
  int rows, columns;
};

// The smallest of a kernel that holds rows x columns.
std::optional<Tile> tile_for(int rows, int columns) {
  constexpr int kRows[] = {64, 128, 256};
  constexpr int kColumns[] = {64, 96, 128, 160, 192, 224, 256};
  const auto tall =
      std::find_if(std::begin(kRows), std::end(kRows), [&](int x) { return x >= rows; });
  const auto wide =
      std::find_if(std::begin(kColumns), std::end(kColumns), [&](int x) { return x >= columns; });
  if (tall == std::end(kRows) || wide == std::end(kColumns) || *tall * *wide > 128 * 256) {
    return std::nullopt;
  }
  return Tile{*tall, *wide};
}

std::string no_tile(int rows, int columns) {
  return fmt::format("no kernel has tiles of {}x{}: take tile=128x256, tile=256x128 or less", rows,
                     columns);
}

// Parts of a tile need stores of 128 bytes a row. Two products side by side need those of 32, or of
// 64 where their rows choose matrices or end with three rows: a box of two and a box of one, and a
// box begins at a multiple of 128 bytes.
int columns_of_kernel(const GemmNeeds& needs, bool serves) {
  const int halves = needs.follower == device::Follower::swiglu ? 2 : 1;
  const int of_halves = needs.grouped || needs.threes ? 32 : 16;
  const int step = needs.parts || serves ? 64 : halves == 2 ? of_halves : 1;
  return (needs.columns + step - 1) / step * step * halves;
}

}  // namespace

std::string why_no_tile(const GemmNeeds& needs, bool serves) {
  const auto tile = tile_for(needs.rows, columns_of_kernel(needs, serves));
  if (tile) return "";
  if (needs.follower == device::Follower::swiglu) {
    return fmt::format(
        "no swiglu kernel has tiles of {}x{} of two products: take tile=128x128, tile=256x64 or "
        "less",
        needs.rows, needs.columns);
  }
  return no_tile(needs.rows, needs.columns);
}

uint32_t blocks_of_k(const Plan& plan, const Instr& gemm) {
  const auto columns = static_cast<uint32_t>(plan.reads(gemm).back().cols());
  return (columns + device::kTileK - 1) / device::kTileK;
}

GemmConfig config_for(const Plan& plan, const GemmNeeds& needs, bool serves) {
  GemmConfig config = config_of(plan.op.dtype, needs.stored.value_or(plan.op.dtype), needs.rows,
                                columns_of_kernel(needs, serves));
  config.serves = serves;
  config.adds = needs.adds;
  config.splits = needs.splits;
  config.phases = needs.phases;
  config.sources = needs.sources;
  config.moves = needs.moves;
  config.norms = needs.norms;
  config.follower = needs.follower;
  config.bias = needs.bias;
  config.grouped = needs.grouped;
  config.gathers = needs.gathers;
  config.scatters = needs.scatters;
  while (device::layout_of(config).shared_bytes > kSharedBytesOfHopper) --config.stages;
  if (plan.cluster > 1) config.shared = device::Shared::b;
  return config;
}

GemmConfig config_of(DType input, DType output, int rows, int columns) {
  // Stores end where the plan's regions end.
  GemmConfig config;
  config.shared = device::Shared::none;
  config.bf16 = input == DType::bf16;
  config.output = device_type<OutputType>(output);
  const auto tile = tile_for(rows, columns);
  if (!tile) throw UsageError(no_tile(rows, columns));
  config.tile_m = tile->rows;
  config.tile_n = tile->columns;
  config.consumers = config.tile_m >= 128 ? 2 : 1;
  config.stages = 8;
  while (device::layout_of(config).shared_bytes > kSharedBytesOfHopper) --config.stages;
  return config;
}

}  // namespace stretto::cuda

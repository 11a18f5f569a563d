#include "gpu/few_rows_kernel.h"

#include <fmt/format.h>

#include <algorithm>

#include "gpu/kernel_words.h"
#include "stretto/error.h"

namespace stretto::cuda {
namespace {

using device::FewRowsConfig;
using device::kTileK;

constexpr int64_t kMostRows = 1 << 20;

int64_t tiles_of(int64_t size, int64_t tile) { return (size + tile - 1) / tile; }

}  // namespace

std::string describe(const FewRowsConfig& config) {
  return fmt::format("{}x{}x{} stages {} splits {} sharing {} blocks {} {}", config.columns,
                     config.rows, kTileK, config.stages, config.splits, config.sharing,
                     config.blocks_per_sm, config.bf16 ? "bf16" : "fp16");
}

std::string why_illegal(const FewRowsConfig& config) {
  if (config.columns != 64 && config.columns != 128) {
    return fmt::format("tiles of few rows have 64 or 128 columns, not {}", config.columns);
  }
  if (config.rows < 16 || config.rows > device::kMostFewRows || config.rows % 16 != 0) {
    return fmt::format("tiles of few rows have a multiple of 16 rows up to {}, not {}",
                       device::kMostFewRows, config.rows);
  }
  if (config.sharing != 1 && config.sharing != 2 && config.sharing != 4) {
    return fmt::format("1, 2 or 4 blocks share the tokens of few rows, not {}", config.sharing);
  }
  if (config.rows % (8 * config.sharing) != 0) {
    return fmt::format("{} blocks share a multiple of {} rows, not {}", config.sharing,
                       8 * config.sharing, config.rows);
  }
  if (config.splits < 1 || config.splits * config.sharing > device::kMostCluster) {
    return fmt::format("a cluster of few rows has 1 to {} blocks, not {}", device::kMostCluster,
                       config.splits * config.sharing);
  }
  if (config.blocks_per_sm < 1 || config.blocks_per_sm > 2) {
    return fmt::format("1 or 2 blocks of few rows share an SM, not {}", config.blocks_per_sm);
  }
  if (config.stages < 2 || config.stages > 16) return "stages must be 2 to 16";
  return why_no_room(config.stages, device::layout_of(config).shared_bytes);
}

std::string why_no_few_rows(const FewRowsShape& shape) {
  if (shape.dtype != DType::bf16 && shape.dtype != DType::fp16) {
    return fmt::format("few rows are of bf16 or fp16, not {}", to_string(shape.dtype));
  }
  if (shape.rows > kMostRows) {
    return fmt::format("{} rows are not few: at most {}", shape.rows, kMostRows);
  }
  if (shape.columns % 8 != 0) {
    return fmt::format("few rows have a multiple of 8 columns, not {}", shape.columns);
  }
  if (shape.k % 8 != 0) return fmt::format("few rows have a K that 8 divides, not {}", shape.k);
  return "";
}

// Measured on one H200 (docs/notes/few-rows.md). Clusters of three and more leave SMs without a
// block unless two share one.
FewRowsConfig fitted(const FewRowsShape& shape, int num_sms) {
  constexpr int64_t kMostOfThinTiles = 128, kMostOfWideTiles = 192, kStageBytes = 208 * 1024;
  FewRowsConfig config;
  config.bf16 = shape.dtype == DType::bf16;
  config.columns = shape.rows <= kMostOfThinTiles ? 64 : 128;
  const int64_t row_tiles =
      tiles_of(shape.rows, config.columns == 64 ? kMostOfThinTiles : kMostOfWideTiles);
  config.rows = static_cast<int>(tiles_of(tiles_of(shape.rows, row_tiles), 16) * 16);
  const int64_t tiles = tiles_of(shape.columns, config.columns) * row_tiles;
  const int64_t most_splits = std::min<int64_t>(device::kMostCluster, tiles_of(shape.k, kTileK));
  config.splits = static_cast<int>(std::clamp<int64_t>(num_sms / tiles, 1, most_splits));
  const bool fill_twice = config.splits > 2 || tiles * config.splits > num_sms;
  config.blocks_per_sm = fill_twice && config.columns == 64 ? 2 : 1;
  const device::FewRowsLayout layout = device::layout_of(config);
  config.stages = static_cast<int>(std::clamp<int64_t>(
      kStageBytes / config.blocks_per_sm / (layout.a_bytes + layout.b_bytes), 2, 8));
  return config;
}

std::string few_rows_source(const FewRowsConfig& config) {
  if (const std::string why = why_illegal(config); !why.empty()) throw UsageError(why);
  return fmt::format(R"(#include "stretto/device/few_rows_sm90.h"
using namespace stretto::device;
constexpr FewRowsConfig kConfig{{.columns = {}, .rows = {}, .stages = {}, .splits = {},
                                .sharing = {}, .blocks_per_sm = {}, .bf16 = {}}};
extern "C" __global__ void __launch_bounds__(layout_of(kConfig).threads, kConfig.blocks_per_sm)
stretto_few_rows(const __grid_constant__ FewRowsParams params) {{
  few_rows_sm90<kConfig>(params);
}}
)",
                     config.columns, config.rows, config.stages, config.splits, config.sharing,
                     config.blocks_per_sm, config.bf16);
}

FewRowsKernel::FewRowsKernel(const Device& device, const Compiler& compiler,
                             const FewRowsConfig& config)
    : config_(config),
      kernel_(compiler.compile(few_rows_source(config), device.arch()).cubin, "stretto_few_rows",
              device::layout_of(config).shared_bytes) {}

void FewRowsKernel::launch(const Stream& stream, const Matrix& tokens, const Matrix& weights,
                           const device::RowTargets& targets, int rank, int ranks,
                           bool overlap) const {
  device::FewRowsParams params{};
  params.weights = map_of_rows(weights, config_.columns, Access::load);
  params.tokens = map_of_rows(tokens, config_.rows / config_.sharing, Access::load);
  params.targets = targets;
  params.rows = static_cast<uint32_t>(tokens.rows);
  params.columns = static_cast<uint32_t>(weights.rows);
  params.num_k = static_cast<uint32_t>(tiles_of(tokens.columns, kTileK));
  params.column_tiles = static_cast<uint32_t>(tiles_of(weights.rows, config_.columns));
  params.rank = rank;
  params.ranks = ranks;
  const int cluster = device::layout_of(config_).cluster;
  const int64_t clusters =
      tiles_of(params.column_tiles, config_.sharing) * tiles_of(tokens.rows, config_.rows);
  kernel_.launch(stream, static_cast<int>(clusters * cluster), device::layout_of(config_).threads,
                 cluster, &params, overlap);
}

}  // namespace stretto::cuda

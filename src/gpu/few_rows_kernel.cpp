#include "gpu/few_rows_kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "core/ceil_div.h"
#include "gpu/kernel_words.h"
#include "op/few_rows_tiles.h"
#include "stretto/error.h"

namespace stretto::cuda {
namespace {

using device::FewRowsConfig;
using device::Follower;
using device::kTileK;

constexpr int kRowsOfTwo = 128;  // two blocks of more have no registers on one SM
constexpr int kMostSenders = 4;
constexpr int64_t kStageBytes = 208 * 1024;

}  // namespace

std::string describe(const FewRowsConfig& config) {
  const std::string follower =
      config.follower == Follower::none ? "" : fmt::format(" {}", name_of(config.follower));
  const std::string senders =
      config.sends_beside() ? fmt::format(" senders {}", config.senders) : "";
  return fmt::format("{}x{}x{} stages {} consumers {} splits {} sharing {}x{} blocks {}{} {}{}{}",
                     config.columns, config.rows, kTileK, config.stages, config.consumers,
                     config.splits, config.row_blocks, config.column_blocks, config.blocks_per_sm,
                     senders, config.bf16 ? "bf16" : "fp16", follower, config.bias ? " bias" : "");
}

std::string why_illegal(const FewRowsConfig& config) {
  constexpr int kColumns = device::kFewRowsColumns;
  const int step = config.is_wide() ? 16 : 8;
  if (config.columns < 8 || config.columns > 2 * kColumns || config.columns % step != 0) {
    return fmt::format(
        "tiles of few rows have a multiple of 8 columns up to {} or of 16 up to {}, not {}",
        kColumns, 2 * kColumns, config.columns);
  }
  if (config.rows < device::kFewRowsUnit || config.rows > device::kMostRowsOfTile ||
      config.rows % device::kFewRowsUnit != 0) {
    return fmt::format("tiles of few rows have a multiple of {} rows up to {}, not {}",
                       device::kFewRowsUnit, device::kMostRowsOfTile, config.rows);
  }
  if (config.is_gated() && (config.columns % 16 != 0 || config.shares())) {
    return "tiles of a gate have a multiple of 16 columns, and share nothing";
  }
  if (config.is_wide() && config.consumers != 2) return "of wide tiles consumers have a half each";
  if (config.shares() && config.splits > 1) return "blocks share, or have a range of K each";
  const int sharing = config.row_blocks * config.column_blocks;
  if (config.row_blocks < 1 || config.column_blocks < 1 || sharing > device::kMostSharing) {
    return fmt::format("1 to {} blocks share, not {} x {}", device::kMostSharing, config.row_blocks,
                       config.column_blocks);
  }
  if (config.columns % (8 * config.row_blocks) != 0 ||
      config.rows % (8 * config.column_blocks) != 0) {
    return "blocks that share load pieces of a multiple of 8 rows";
  }
  if (config.consumers < 1 || config.consumers > 2) return "consumers must be 1 or 2";
  if (config.splits < 1 || config.splits > device::kMostSplits) {
    return fmt::format("K of few rows is split among 1 to {} blocks, not {}", device::kMostSplits,
                       config.splits);
  }
  if (config.blocks_per_sm < 1 || config.blocks_per_sm > 2) {
    return fmt::format("1 or 2 blocks of few rows share an SM, not {}", config.blocks_per_sm);
  }
  if (config.blocks_per_sm == 2 && config.rows > kRowsOfTwo) {
    return fmt::format("two blocks of more than {} rows have no registers on one SM", kRowsOfTwo);
  }
  if (config.senders < 0 || config.senders > kMostSenders) {
    return fmt::format("0 to {} warps send tiles beside the next, not {}", kMostSenders,
                       config.senders);
  }
  const bool alone = config.columns == 2 * kColumns && config.cluster() == 1 &&
                     config.blocks_per_sm == 1 && !config.follows();
  if (config.sends_beside() && (!alone || config.rows > kMostRowsBeside)) {
    return fmt::format(
        "tiles that are sent beside the next have {} columns and up to {} rows, of blocks "
        "without a cluster, one an SM",
        2 * kColumns, kMostRowsBeside);
  }
  // A consumer that comes back to a stage must know that it was full since: it is its own.
  const int turns = config.is_wide() ? 1 : config.consumers;
  if (config.stages < 2 || config.stages > 16 || config.stages % turns != 0) {
    return fmt::format("stages must be 2 to 16, as many for each of {} consumers, not {}", turns,
                       config.stages);
  }
  return why_no_room(config.stages, device::layout_of(config).shared_bytes);
}

std::string why_no_few_rows(const FewRowsShape& shape) {
  if (shape.dtype != DType::bf16 && shape.dtype != DType::fp16) {
    return fmt::format("few rows are of bf16 or fp16, not {}", to_string(shape.dtype));
  }
  const int64_t most = shape.sent > 0 ? device::kMostSentRows : device::kMostFewRows;
  if (shape.rows > most) {
    return fmt::format("{} rows are not few: at most {}", shape.rows, most);
  }
  if (shape.follower == Follower::swiglu && shape.rows > kRowsThatStream) {
    return fmt::format("{} rows of a gate are not few: at most {}", shape.rows, kRowsThatStream);
  }
  if (shape.columns % 8 != 0) {
    return fmt::format("few rows have a multiple of 8 columns, not {}", shape.columns);
  }
  if (shape.k % 8 != 0) return fmt::format("few rows have a K that 8 divides, not {}", shape.k);
  return "";
}

namespace {

FewRowsConfig config_for(const FewRowsShape& shape) {
  FewRowsConfig config;
  config.bf16 = shape.dtype == DType::bf16;
  config.follower = shape.follower;
  config.bias = shape.has_bias;
  return config;
}

FewRowsConfig fitted_to_multiply(const FewRowsShape& shape, int num_sms) {
  FewRowsConfig config = config_for(shape);
  const double sent = config.follows() ? 0 : shape.sent;
  const FewRowsTile tile = few_rows_tile(shape.rows, shape.columns, shape.k, sent, num_sms);
  config.columns = tile.columns;
  config.rows = tile.rows;
  config.row_blocks = config.column_blocks = tile.sharing;
  config.splits = tile.splits;
  if (tile.splits > 1 && !config.is_wide()) config.consumers = 1;
  if (tile.sends_beside) config.senders = device::kSenders;
  const device::FewRowsLayout layout = device::layout_of(config);
  // Wide tiles take a stage more, 3 to 4 % faster; narrow ones were 7 to 14 % slower for it.
  constexpr int64_t kMostBytes = 218 * 1024, kMostStages = 12;
  const int64_t kept = tile.sends_beside ? layout.sum_bytes : 0;
  const int64_t room = config.is_wide() ? kMostBytes - kept : kStageBytes;
  config.stages = static_cast<int>(std::min(kMostStages, room / (layout.a_bytes + layout.b_bytes)));
  if (!config.is_wide()) config.stages -= config.stages % config.consumers;
  return config;
}

}  // namespace

// A block an SM: of fewer tiles each has a range of K or fewer columns, of more two share an SM.
// Clusters of three leave SMs over unless two blocks may share one.
FewRowsConfig fitted(const FewRowsShape& shape, int num_sms) {
  if (shape.rows > kRowsThatStream) return fitted_to_multiply(shape, num_sms);
  constexpr int64_t kColumns = device::kFewRowsColumns;
  constexpr int32_t kFewToShareAnSm = 64;
  FewRowsConfig config = config_for(shape);
  const int64_t columns = shape.columns * (config.is_gated() ? 2 : 1);  // of weights
  config.rows = static_cast<int>(ceil_div(std::max<int64_t>(shape.rows, 1), device::kFewRowsUnit)) *
                device::kFewRowsUnit;
  const int64_t tiles = ceil_div(columns, kColumns);
  const int64_t most_splits = std::min<int64_t>(device::kMostSplits, ceil_div(shape.k, 4 * kTileK));
  config.splits = static_cast<int>(std::clamp<int64_t>(num_sms / tiles, 1, most_splits));
  config.consumers = config.splits > 1 ? 1 : 2;
  const bool many = tiles > num_sms && config.rows <= kFewToShareAnSm;
  config.blocks_per_sm = many || config.splits > 2 ? 2 : 1;
  // Of few widths, so that kernels are few that may be compiled ahead.
  constexpr int kWidths[] = {40, 48, 64}, kWidthsOfRanges[] = {32, 64};
  const std::span<const int> whole = std::span(kWidths).subspan(config.is_gated() ? 1 : 0);
  const std::span<const int> widths =
      config.splits > 1 ? std::span<const int>(kWidthsOfRanges) : whole;
  const int64_t most_tiles = std::max<int64_t>(
      1, (config.splits > 1 ? 1 : config.blocks_per_sm) * int64_t{num_sms} / config.splits);
  const int64_t least = ceil_div(columns, most_tiles);
  const auto width = std::find_if(widths.begin(), widths.end(), [&](int w) { return w >= least; });
  config.columns = width == widths.end() ? device::kFewRowsColumns : *width;
  const device::FewRowsLayout layout = device::layout_of(config);
  const int64_t room = kStageBytes / config.blocks_per_sm / (layout.a_bytes + layout.b_bytes);
  config.stages =
      static_cast<int>(std::clamp<int64_t>(room, 2, 12)) / config.consumers * config.consumers;
  return config;
}

std::string few_rows_source(const FewRowsConfig& config) {
  if (const std::string why = why_illegal(config); !why.empty()) throw UsageError(why);
  return fmt::format(R"(#include "stretto/device/few_rows_sm90.h"
using namespace stretto::device;
constexpr FewRowsConfig kConfig{{.columns = {}, .rows = {}, .stages = {}, .consumers = {},
                                .splits = {}, .row_blocks = {}, .column_blocks = {},
                                .blocks_per_sm = {}, .bf16 = {}, .follower = Follower::{},
                                .bias = {}, .senders = {}}};
extern "C" __global__ void __launch_bounds__(layout_of(kConfig).threads, kConfig.blocks_per_sm)
stretto_few_rows(const __grid_constant__ FewRowsParams params) {{
  few_rows_sm90<kConfig>(params);
}}
)",
                     config.columns, config.rows, config.stages, config.consumers, config.splits,
                     config.row_blocks, config.column_blocks, config.blocks_per_sm, config.bf16,
                     name_of(config.follower), config.bias, config.senders);
}

device::RowTargets row_targets(const Matrix& c) {
  const int64_t row_bytes = c.stride * num_bytes(c.dtype);
  STRETTO_ASSERT(c.address % 16 == 0 && row_bytes % 16 == 0, "rows of c are vectors of 16 bytes");
  device::RowTargets targets{};
  targets.slots[0] = c.address;
  targets.row_vectors = static_cast<uint32_t>(row_bytes / 16);
  return targets;
}

FewRowsKernel::FewRowsKernel(const Device& device, const Compiler& compiler,
                             const FewRowsConfig& config)
    : config_(config),
      num_sms_(device.num_sms()),
      kernel_(compiler.compile(few_rows_source(config), device.arch()).cubin, "stretto_few_rows",
              device::layout_of(config).shared_bytes) {}

void FewRowsKernel::launch(const Stream& stream, const FewRowsOperands& of,
                           const device::RowTargets& targets, int rank, int ranks, bool overlap,
                           bool weights_early) const {
  const auto& [tokens, weights, beside, bias] = of;
  const int stored = config_.stored_columns();
  device::FewRowsParams params{};
  params.weights = map_of_rows(weights, stored / config_.row_blocks, Access::load);
  if (config_.is_gated()) params.beside = map_of_rows(beside, stored, Access::load);
  for (size_t i = 0; i < bias.size(); ++i) params.bias[i] = bias[i].address;
  params.tokens = map_of_rows(tokens, config_.rows / config_.column_blocks, Access::load);
  params.targets = targets;
  params.rows = static_cast<uint32_t>(tokens.rows);
  params.columns = static_cast<uint32_t>(weights.rows);
  params.num_k = static_cast<uint32_t>(ceil_div(tokens.columns, kTileK));
  params.rank = rank;
  params.ranks = ranks;
  params.weights_early = weights_early ? 1 : 0;
  const int64_t groups = ceil_div(tokens.rows, int64_t{config_.rows} * config_.row_blocks);
  params.row_groups = static_cast<uint32_t>(groups);
  const int64_t columns = int64_t{stored} * config_.column_blocks;
  params.column_groups = static_cast<uint32_t>(ceil_div(weights.rows, columns));
  int64_t blocks = groups * params.column_groups * config_.cluster();
  if (config_.sends_beside()) {
    blocks = std::min<int64_t>(blocks, num_sms_);
    params.by_rows = targets.part_rows != 0 ? 1 : 0;
    const int64_t next = int64_t{targets.part_rows} * (rank + 1);  // the next rank's first row
    params.first_group = static_cast<uint32_t>(next < tokens.rows ? next / config_.rows : 0);
  }
  kernel_.launch(stream, static_cast<int>(blocks), device::layout_of(config_).threads,
                 config_.cluster(), &params, overlap);
}

}  // namespace stretto::cuda

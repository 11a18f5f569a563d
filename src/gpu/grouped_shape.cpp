#include "gpu/grouped_shape.h"

#include <algorithm>

#include "gpu/grouped_kernel.h"
#include "op/expert_tiles.h"

namespace stretto::cuda {

using device::Follower;
using device::GroupedConfig;

GroupedConfig fitted(GroupedConfig config, const GroupedShape& shape, int num_sms) {
  const int64_t rows = shape.rows / std::max<int64_t>(shape.experts, 1);
  const bool by_index = config.scatters || config.weighs;
  const bool joins = config.follower == Follower::swiglu;
  const ExpertLoad load{rows, shape.experts, shape.columns, shape.k, by_index, joins};
  const ExpertTile tile = expert_tile(load, config.gathers, num_sms);
  config.columns = tile.columns;
  config.rows = tile.rows;
  config.stages = tile.stages;
  config.ranges = tile.ranges;
  config.together = tile.together;
  while (config.stages > 2 && !why_illegal(config).empty()) --config.stages;
  // Other followers and warps leave room for another.
  for (GroupedConfig more = config; ++more.stages, why_illegal(more).empty();) config = more;
  return config;
}

namespace {

// A tile half as high loads as many weights, and waits for the L2 cache sooner. Not measured.
constexpr double kLowTile = 0.65;
constexpr double kWorthLowTiles = 0.95;
constexpr int64_t kLeastHigh = 96;  // that may be halved: rows

// When blocks end that take `high` tiles, each of time 1, and behind them `low` ones.
double end_of(int64_t high, int64_t low, int64_t blocks) {
  const int64_t rounds = high / blocks, late = high % blocks;
  const auto first = static_cast<double>(rounds);
  const auto done_by = [&](double end) {
    const auto each = [&](double free) {
      return std::max<int64_t>(0, static_cast<int64_t>((end - free) / kLowTile + 1e-9));
    };
    return (blocks - late) * each(first) + late * each(first + 1);
  };
  double end = late > 0 ? first + 1 : first;
  if (done_by(end) >= low) return end;
  for (int64_t more = 1;; ++more) {
    const double step = kLowTile * static_cast<double>(more);
    for (const double at : {first + step, first + 1 + step}) {
      if (at > end && done_by(at) >= low) return at;
    }
  }
}

}  // namespace

int64_t expected_tiles(const GroupedConfig& config, const GroupedShape& shape) {
  const int64_t experts = shape.experts, rows = shape.rows / std::max<int64_t>(experts, 1);
  const int64_t cuts = (rows + config.rows - 1) / config.rows;
  return experts * cuts * ((shape.columns + config.columns - 1) / config.columns);
}

int64_t low_experts(const GroupedConfig& config, const GroupedShape& shape, int blocks) {
  const int64_t experts = std::max<int64_t>(shape.experts, 1), rows = shape.rows / experts;
  const int64_t cuts = (rows + config.rows - 1) / config.rows;
  if (cuts == 0 || rows / cuts < kLeastHigh) return 0;
  const int64_t tiles = expected_tiles(config, shape) / experts;
  int64_t found = 0;
  double best = kWorthLowTiles * end_of(experts * tiles, 0, blocks);
  for (int64_t low = 1; low <= experts; ++low) {
    const double end = end_of((experts - low) * tiles, 2 * low * tiles, blocks);
    if (end >= best) continue;
    best = end;
    found = low;
  }
  return found;
}

}  // namespace stretto::cuda

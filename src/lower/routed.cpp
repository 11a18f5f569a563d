#include "lower/routed.h"

#include <algorithm>
#include <cmath>

#include "stretto/device/partition_by_blocks.h"
#include "stretto/device/routing.h"

namespace stretto {
namespace {

// That more than `least` of so many choices are of an expert that each takes with this chance: a
// normal distribution is near enough.
double chance_of_more(double least, double choices, double chance) {
  const double mean = choices * chance;
  if (least == 0) return 1 - std::pow(1 - chance, choices);
  const double deviation = std::sqrt(mean * (1 - chance));
  if (deviation == 0) return mean > least ? 1 : 0;
  return 0.5 * std::erfc((least + 0.5 - mean) / deviation / std::sqrt(2.0));
}

// Between kernels a partition is one of its own, which is over sooner than three, unless lanes send
// tokens meanwhile. Else a lane makes the tables of few choices sooner than many lanes that await
// each other.
int parts_of(const RoutedLowering& product, const RoutedBlocks& blocks) {
  const int64_t choices = blocks.tokens_of_block * blocks.top_k;
  const bool is_alone = !product.by_lanes() || !product.x.is_gathered;
  const bool has_kernel = product.schedule.sync == Sync::event && is_alone;
  if (has_kernel && choices <= INT32_MAX &&
      device::partition_blocks(static_cast<int32_t>(choices), blocks.experts) != 0) {
    return 1;
  }
  constexpr int64_t kLeast = 16384, kOfPart = 2048, kMost = 32;
  return choices < kLeast ? 1 : static_cast<int>(std::min(kMost, choices / kOfPart));
}

}  // namespace

RoutedBlocks blocks_of(const RoutedLowering& product) {
  const Segment& op = product.op;
  RoutedBlocks blocks;
  blocks.tokens = op.m;
  blocks.by_source = product.by_source();
  blocks.tokens_of_block = blocks.by_source ? op.row_shards().block() : op.m;
  blocks.count = static_cast<int>((op.m + blocks.tokens_of_block - 1) / blocks.tokens_of_block);
  blocks.all_experts = static_cast<int32_t>(op.experts);
  blocks.dealt_to = product.has_shares_of_experts() ? op.ranks : 1;
  blocks.experts = blocks.experts_of_rank(0);
  blocks.top_k = static_cast<int32_t>(op.top_k);
  blocks.entry_rows = product.schedule.tile_m;
  blocks.entries = device::most_entries(blocks.tokens_of_block * blocks.top_k, blocks.experts,
                                        blocks.entry_rows);
  blocks.parts = parts_of(product, blocks);
  constexpr int32_t kSlack = 2;
  blocks.single = std::min(blocks.entries, kSlack * expected_entries(blocks));
  return blocks;
}

int32_t expected_entries(const RoutedBlocks& blocks) {
  const auto choices = static_cast<double>(blocks.tokens_of_block * blocks.top_k);
  double entries = 0;  // of an expert
  for (double rows = 0; rows < choices; rows += blocks.entry_rows) {
    const double more = chance_of_more(rows, choices, 1.0 / blocks.all_experts);
    entries += more;
    if (more < 1e-9) break;
  }
  const auto all = static_cast<int32_t>(std::lround(entries * blocks.experts));
  return std::clamp(all, 1, blocks.entries);
}

}  // namespace stretto

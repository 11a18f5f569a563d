#include "launch/tile_sums.h"

#include <algorithm>

namespace stretto::cuda {

TileSums::TileSums(const Plan& plan) : uses_(plan.buffers.size(), Use::memory) {
  tiles_ = LaneTiles(plan).tiles;
  if (!tiles_.empty()) number_tiles(plan);
  find_uses(plan);
  needs_ = find_needs(plan, *this);
}

bool TileSums::any_ranges_kept() const {
  return std::find(uses_.begin(), uses_.end(), Use::ranges_in_memory) != uses_.end();
}

void TileSums::number_tiles(const Plan& plan) {
  uint32_t count = 0;
  for (const Lane& lane : plan.lanes) {
    first_.push_back(count);
    count += static_cast<uint32_t>(lane.instrs.size());
  }
  number_.assign(count, 0);
  for (uint32_t i = 0; i < tiles_.size(); ++i) {
    const auto& [lane, tile] = tiles_[i];
    for (uint32_t p = tile.begin; p <= tile.last; ++p) number_[first_[lane] + p] = i + 1;
  }
}

void TileSums::find_uses(const Plan& plan) {
  for (const auto& [l, tile] : tiles_) {
    const std::vector<Instr>& instrs = plan.lanes[l].instrs;
    const auto left_by = [&](uint32_t at) -> Use& {
      return uses_[plan.writes(instrs[at])[0].buffer];
    };
    if (tile.sum.of_ranges != 0) {
      Use& use = left_by(tile.gemm);
      use = std::max(use, tile.sum.others != 0 ? Use::ranges_in_memory : Use::ranges_in_registers);
    }
    for (uint32_t at = tile.followed.made; at < tile.followed.last; ++at) {
      if (instrs[at].is_task()) left_by(at) = Use::follows;
    }
  }
}

}  // namespace stretto::cuda

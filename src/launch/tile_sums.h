// Tiles of the GEMM kernel and what it does to them before it stores them, as the plan's words have
// it (plan/tile_task.h).
#pragma once

#include <cstdint>
#include <vector>

#include "launch/gemm_needs.h"
#include "plan/fused_faults.h"
#include "plan/placed.h"
#include "stretto/plan.h"

namespace stretto::cuda {

class TileSums {
 public:
  // None where a library multiplies: nothing there is the GEMM kernel's. The plan's words have no
  // faults.
  explicit TileSums(const Plan& plan);

  // Of the gemm at `at` of plan.lanes[lane]; of ranges of K in registers, the last one.
  TileSum of(uint32_t lane, uint32_t at) const {
    const Tile* tile = find(lane, at);
    return tile != nullptr && tile->gemm == at ? tile->sum : TileSum{};
  }
  // The gemm that goes on adding to the sums of the one at `at`, the last one that does; or itself.
  uint32_t last_of(uint32_t lane, uint32_t at) const {
    const Tile* tile = find(lane, at);
    return tile != nullptr && at < tile->gemm ? tile->gemm : at;
  }
  // What follows products before they are stored: the tile that the instruction at `position` is a
  // part of, from the product on; null: none.
  const FollowedTile* followed_at(uint32_t lane, uint32_t position) const {
    const Tile* tile = find(lane, position);
    const bool is_part = tile != nullptr && tile->followed && position >= tile->followed.begin;
    return is_part ? &tile->followed : nullptr;
  }
  // The tile that begins with the product at `position`; null: none.
  const FollowedTile* followed_from(uint32_t lane, uint32_t position) const {
    const FollowedTile* tile = followed_at(lane, position);
    return tile != nullptr && tile->begin == position ? tile : nullptr;
  }
  // Whether the buffer is for sums of ranges of K, which gemms leave for the sums over ranges; and
  // whether all that it is for stays in registers, so that it needs no memory.
  bool holds_ranges(uint16_t buffer) const {
    return uses_[buffer] == Use::ranges_in_registers || uses_[buffer] == Use::ranges_in_memory;
  }
  bool needs_no_memory(uint16_t buffer) const {
    return uses_[buffer] == Use::ranges_in_registers || uses_[buffer] == Use::follows;
  }
  bool holds_ranges_in_memory(uint16_t buffer) const {
    return uses_[buffer] == Use::ranges_in_memory;
  }
  bool any_ranges_kept() const;

  // By stretch, as far as there are tiles.
  const std::vector<GemmNeeds>& needs() const { return needs_; }

  // Where the tile of the gemm at `at` is stored to once what is added before any store is, and
  // what follows is done: visit(region, row of the tile) for each. Nowhere where it leaves sums of
  // a range of K.
  template <typename Visit>
  void for_each_store(const Plan& plan, uint32_t lane, uint32_t at, const Visit& visit) const {
    const Instr* instrs = plan.lanes[lane].instrs.data();
    if (const FollowedTile* const tile = followed_from(lane, at)) {
      return for_each_placed_write(plan, instrs[tile->last], visit);
    }
    const TileSum sum = of(lane, at), first = sum.before_stores();
    const Instr& stored = instrs[first ? first.position : at];
    const auto writes = plan.writes(stored);
    if (!first && !writes.empty() && holds_ranges(writes[0].buffer)) return;
    for_each_placed_write(plan, stored, [&](const Region& to, int32_t row) {
      const bool added = sum.stores_before() && &to == &writes[sum.part.write];
      if (!added) visit(to, row);
    });
  }
  // The same of the rank's part, where that is stored behind the others.
  template <typename Visit>
  static void for_each_store_of_part(const Plan& plan, const Instr& reduce, const TileSum& sum,
                                     const Visit& visit) {
    for (const Region& to : plan.writes(reduce)) visit(to, sum.part.row);
  }

 private:
  const Tile* find(uint32_t lane, uint32_t at) const {
    if (number_.empty()) return nullptr;
    const uint32_t number = number_[first_[lane] + at];
    return number != 0 ? &tiles_[number - 1].tile : nullptr;
  }
  void number_tiles(const Plan& plan);
  void find_uses(const Plan& plan);

  std::vector<LaneTile> tiles_;   // those that are more than a gemm, in the order of the plan
  std::vector<uint32_t> first_;   // by lane: of its instructions in number_
  std::vector<uint32_t> number_;  // by instruction: 1 + place in tiles_ of its tile; 0: none
  enum class Use : uint8_t { memory, ranges_in_registers, ranges_in_memory, follows };
  std::vector<Use> uses_;  // by buffer
  std::vector<GemmNeeds> needs_;
};

}  // namespace stretto::cuda

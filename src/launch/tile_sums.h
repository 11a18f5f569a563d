// Reduces that the GEMM kernel does itself: of a tile that its lane has just computed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launch/followers.h"
#include "launch/gemm_needs.h"
#include "plan/added_part.h"
#include "stretto/plan.h"

namespace stretto::cuda {

// The reduces that add to the tile of a gemm: first one that adds the sums of the tile's other
// ranges of K, then one that adds other ranks' sums; there may be either or both. They follow with
// nothing but waits between; notifies that nobody awaits in the same run may stand before the first
// and are made behind it. Each reads the tile as it is until then, which lies at equal distances
// from what is added. Until the last one it is never stored, so nothing else reads it.
//
// The rank may own some rows of a tile only: then the reduce reads that part of it, and the other
// parts are stored before, by a task of their own, which makes the notifies that stand between.
//
// Where gemms of the tile's first ranges of K stand directly before this one in its lane, their
// sums never leave the registers: it goes on adding to them. All of them are one task of the
// kernel, whose waits stand where the plan has them.
struct TileSum {
  uint32_t position = 0;   // of the last reduce; 0: there is none, or a mover has to do it
  uint32_t of_ranges = 0;  // position of the one that adds ranges of K; 0: there is none
  uint32_t first = 0;      // of this: the first of the gemms whose sums stay in registers
  uint32_t others = 0;     // ranges of K that it adds from memory
  uint32_t of_ranks = 0;   // position of the one that adds ranks' sums. Of this:
  uint32_t own_at = 0;     // which of its sources is the tile
  int32_t step_rows = 0;   // of the buffer, from source to source
  AddedPart part = {};     // the tile, or what of it is the rank's own

  explicit operator bool() const { return position != 0; }
  bool reads_memory() const { return others != 0 || of_ranks != 0; }
  bool stores_before() const { return of_ranks != 0 && !part.is_all; }
  TileSum of_ranges_alone() const { return {of_ranges, of_ranges, first, others}; }
  // What is added before anything is stored.
  TileSum before_stores() const { return stores_before() ? of_ranges_alone() : *this; }
  // Whose writes of the gemm's and the sums' are the whole tile's, the rank's part included.
  uint32_t writer(uint32_t gemm) const { return of_ranges != 0 ? of_ranges : gemm; }
};

class PlacesOfTiles;

class TileSums {
 public:
  // None where a library multiplies.
  explicit TileSums(const Plan& plan);

  // Of the gemm at `at` of plan.lanes[lane].
  TileSum of(uint32_t lane, uint32_t at) const {
    const TileSum* sum = find(lane, at);
    return sum != nullptr ? *sum : TileSum{};
  }
  // The gemm that goes on adding to the sums of the one at `at`, the last one that does; or itself.
  uint32_t last_of(uint32_t lane, uint32_t at) const {
    const uint32_t number = number_.empty() ? 0 : number_[first_[lane] + at];
    return number != 0 ? sums_[number - 1].at : at;
  }
  // Whether the buffer is for sums of ranges of K, which gemms leave for the sums over ranges; and
  // whether all of them stay in registers, so that it needs no memory.
  bool holds_ranges(uint16_t buffer) const { return ranges_[buffer] != Ranges::none; }
  bool needs_no_memory(uint16_t buffer) const {
    return ranges_[buffer] == Ranges::in_registers || followers_.needs_no_memory(buffer);
  }
  bool holds_ranges_in_memory(uint16_t buffer) const {
    return ranges_[buffer] == Ranges::in_memory;
  }
  bool any_ranges_kept() const;
  // Why the GEMM kernel cannot add the plan's ranges of K; empty when it can, or there are none.
  const std::string& ranges_misfit() const { return ranges_misfit_; }

  // What follows products before they are stored.
  const Followers& followers() const { return followers_; }

  // By stretch, as far as there are tiles.
  const std::vector<GemmNeeds>& needs() const { return needs_; }

  // Where the tile of the gemm at `at` is stored to once what is added before any store is, and
  // what follows is done: visit(region, row of the tile) for each. Nowhere where it leaves sums of
  // a range of K.
  template <typename Visit>
  void for_each_store(const Plan& plan, uint32_t lane, uint32_t at, const Visit& visit) const {
    const Instr* instrs = plan.lanes[lane].instrs.data();
    if (const FollowedTile* const tile = followers_.from(lane, at)) {
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
  struct Entry {
    uint32_t lane, at;
    TileSum sum;
  };
  const TileSum* find(uint32_t lane, uint32_t at) const {
    if (number_.empty()) return nullptr;
    const uint32_t number = number_[first_[lane] + at];
    return number != 0 && sums_[number - 1].at == at ? &sums_[number - 1].sum : nullptr;
  }
  PlacesOfTiles find_in_lanes(const Plan& plan);
  void drop_what_others_read(const Plan& plan, PlacesOfTiles& places);
  void number_sums(const Plan& plan);
  void sum_up(const Plan& plan);
  std::string why_ranges_misfit(const Plan& plan) const;

  std::vector<Entry> sums_;       // in the order of the plan
  std::vector<uint32_t> first_;   // by lane: of its instructions in number_
  std::vector<uint32_t> number_;  // by instruction: 1 + place in sums_ of what it adds to; 0: none
  enum class Ranges : uint8_t { none, in_registers, in_memory };
  std::vector<Ranges> ranges_;  // by buffer
  std::string ranges_misfit_;
  Followers followers_;
  std::vector<GemmNeeds> needs_;
};

}  // namespace stretto::cuda

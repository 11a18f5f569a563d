// Reduces that the GEMM kernel does itself: of a tile that its lane has just computed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stretto/plan.h"

namespace stretto::cuda {

// The reduces that add to the tile of a gemm: first one that adds the sums of the tile's other
// ranges of K, then one that adds other ranks' sums; there may be either or both. They follow with
// nothing but waits between. Each reads the tile as it is until then, which lies at equal distances
// from what is added. Until the last one it is never stored, so nothing else reads it.
struct TileSum {
  uint32_t position = 0;   // of the last reduce; 0: there is none, or a mover has to do it
  uint32_t of_ranges = 0;  // position of the one that adds ranges of K; 0: there is none
  uint32_t of_ranks = 0;   // the same of the one that adds ranks' sums. Of this:
  uint32_t own_at = 0;     // which of its sources is the tile
  int32_t step_rows = 0;   // of the buffer, from source to source

  explicit operator bool() const { return position != 0; }
};

class TileSums {
 public:
  explicit TileSums(const Plan& plan);

  // Of the gemm at `at` of plan.lanes[lane].
  TileSum of(uint32_t lane, uint32_t at) const;
  // Sources beside the tile itself that every sum over ranks of the plan adds; 0: there is none.
  int sources() const { return sources_; }

  // Whether the buffer holds sums of ranges of K, which gemms leave for the sums over ranges.
  bool holds_ranges(uint16_t buffer) const { return holds_ranges_[buffer]; }
  bool any_ranges() const;
  // Why the GEMM kernel cannot add the plan's ranges of K; empty when it can, or there are none.
  const std::string& ranges_misfit() const { return ranges_misfit_; }

  // Whose writes the tile of the gemm at `at` is stored to: its last sum's, or its own. Nothing
  // where it leaves sums of a range of K.
  const Instr* stored_by(const Plan& plan, uint32_t lane, uint32_t at) const;

 private:
  struct Entry {
    uint32_t lane, at;
    TileSum sum;
  };
  std::string why_ranges_misfit(const Plan& plan) const;

  void number_sums(const Plan& plan);

  std::vector<Entry> sums_;       // in the order of the plan
  std::vector<uint32_t> first_;   // by lane: of its instructions in number_
  std::vector<uint32_t> number_;  // by instruction: 1 + its place in sums_; 0: it has none
  int sources_ = 0;
  std::vector<bool> holds_ranges_;  // by buffer
  std::string ranges_misfit_;
};

}  // namespace stretto::cuda

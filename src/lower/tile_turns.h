// In which turn a rank computes each tile.
#pragma once

#include <cstdint>
#include <vector>

#include "lower/lowering.h"

namespace stretto {

// Tiles of a lower turn come first; tiles of one turn are swept for L2.
class TileTurns {
 public:
  TileTurns(const SegmentLowering& state, int rank);

  int64_t of(int32_t tile) const { return turn_of_[static_cast<size_t>(tile)]; }
  // Tile rows of all owners in turn make up one sweep.
  bool interleaves(int64_t turn) const {
    return interleaves_ && !(begins_with_own() && turn == 0);  // own rows are swept as ever
  }
  // Where they do: the tile's place among those of one turn and column.
  int32_t owner_turn(int32_t tile) const { return owner_turn_[static_cast<size_t>(tile)]; }
  // Another rank holds or reduces some of it.
  bool is_foreign(int32_t tile) const { return foreign_[static_cast<size_t>(tile)] != 0; }
  // Of a schedule with groups.
  int64_t pieces_before(int64_t turn) const;

 private:
  void put_shared_last();
  // Gathers begin with own rows, while those of others are under way.
  bool begins_with_own() const { return state_.gathers() && !state_.gathers_own_rows(); }
  int64_t own_late() const;
  int64_t turn_of(const Piece& piece) const;

  const SegmentLowering& state_;
  const int rank_;
  const std::vector<int> turns_;  // by owner
  const bool interleaves_;
  const int32_t sweep_step_;  // where owners interleave: tile rows of an owner in a turn
  const int64_t own_late_;    // there: by how much own tiles come late

  std::vector<int64_t> piece_turns_;  // ascending; none without groups
  std::vector<int64_t> turn_of_;      // by tile
  std::vector<int32_t> owner_turn_;   // by tile
  std::vector<uint8_t> foreign_;      // by tile
};

}  // namespace stretto

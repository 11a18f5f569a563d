#include "lower/due_reduces.h"

#include <algorithm>

namespace stretto {
namespace {

class DueFinder {
 public:
  DueFinder(const SegmentLowering& state, DueReduces& due)
      : state_(state), due_(due), ranks_(state.op.ranks) {}

  void find() {
    std::vector<int64_t> ready(pieces().size(), 0);
    for (int rank = 0; rank < ranks_; ++rank) {
      for (size_t p = 0; p < pieces().size(); ++p) {
        const int64_t when = done(rank, p);
        ready[p] = std::max(ready[p], when);
        if (state_.stages_partials() && pieces()[p].owner != rank) due_.copies.add(rank, {when, p});
      }
    }
    if (reduces_tile_by_tile(state_)) {
      find_tiles(ready);
    } else {
      for (size_t p = 0; p < pieces().size(); ++p) {
        const int owner = pieces()[p].owner;
        for (int rank = 0; rank < ranks_; ++rank) {
          if (owner == rank || owner == Piece::kEveryone) due_.reduces.add(rank, {ready[p], p});
        }
      }
    }
    due_.copies.sort();
    due_.reduces.sort();
  }

 private:
  // A tile that the owner computes after its peers' pieces is due with its own wave, though the
  // piece has others that come later.
  void find_tiles(const std::vector<int64_t>& ready) {
    for (size_t p = 0; p < pieces().size(); ++p) {
      const int owner = pieces()[p].owner;
      std::vector<TileOfPiece>& tiles = due_.tiles[static_cast<size_t>(owner)];
      const TileOrder& order = state_.orders[static_cast<size_t>(owner)];
      int64_t sent = 0;
      for (int rank = 0; rank < ranks_; ++rank) {
        if (rank != owner) sent = std::max(sent, done(rank, p));
      }
      for (const int32_t tile : state_.pieces.tiles_of(p)) {
        const auto t = static_cast<size_t>(tile);
        const Rect rect = state_.grid.rect(tile);
        const int64_t computed = Due::at(order.done_wave[t], order.position[t]);
        // Shared with others' rows or another piece: with the piece.
        const bool whole = intersect(rect, pieces()[p].rect) == rect;
        due_.reduces.add(owner, {whole ? std::max(sent, computed) : ready[p], tiles.size()});
        tiles.push_back({p, intersect(rect, pieces()[p].rect), tile});
      }
    }
  }

  // When `rank` has computed all tiles of a piece.
  int64_t done(int rank, size_t p) const {
    const TileOrder& order = state_.orders[static_cast<size_t>(rank)];
    int64_t when = 0;
    for (const int32_t tile : state_.pieces.tiles_of(p)) {
      const auto t = static_cast<size_t>(tile);
      when = std::max(when, Due::at(order.done_wave[t], order.position[t]));
    }
    return when;
  }

  const std::vector<Piece>& pieces() const { return state_.pieces.all; }

  const SegmentLowering& state_;
  DueReduces& due_;
  const int ranks_;
};

}  // namespace

DueReduces::DueReduces(const SegmentLowering& state)
    : copies(state.op.ranks), reduces(state.op.ranks), tiles(static_cast<size_t>(state.op.ranks)) {
  DueFinder(state, *this).find();
}

}  // namespace stretto

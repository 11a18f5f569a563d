// What each owner has in each chunk that a collective moves.
#pragma once

#include <vector>

#include "lower/lowering.h"

namespace stretto {

// The storage rows of every owner in every chunk; empty where a short shard has none.
class ChunkTable {
 public:
  explicit ChunkTable(const SegmentLowering& state)
      : owners_(static_cast<size_t>(state.shards.ranks)),
        rects_(state.layout.chunks.size() * owners_) {
    for (const Piece& piece : state.pieces.all) {
      rects_[static_cast<size_t>(piece.index) * owners_ + static_cast<size_t>(piece.owner)] =
          piece.rect;
    }
  }

  const Rect& at(size_t chunk, int owner) const {
    return rects_[chunk * owners_ + static_cast<size_t>(owner)];
  }
  // The same rows counted from the beginning of the owner's shard.
  Rect in_shard(const SegmentLowering& state, size_t chunk, int owner) const {
    const Rect& rect = at(chunk, owner);
    return rect.empty() ? rect : rect.moved(state.shard_cuts[chunk] - rect.row0);
  }

 private:
  size_t owners_;
  std::vector<Rect> rects_;
};

}  // namespace stretto

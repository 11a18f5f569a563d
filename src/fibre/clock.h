// Vector clocks: for each actor, up to which of its events something is known to have happened.
//
// Actors are the emulated threads and, from num_threads up, the source side and the destination
// side of non-blocking transfers, which happen at some time of their own until a fence or quiet.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "fibre/budget.h"

namespace stretto::fibre {

struct Event {
  uint32_t actor = 0;
  uint32_t seq = 0;  // 0: before everything
};

// Clocks share the pieces in which they agree: threads know much the same of most others, and a
// clock of its own for each would take the square of their number.
class Clock {
 public:
  uint32_t operator[](uint32_t actor) const {
    const size_t piece = actor / kPieceActors;
    return piece < pieces_.size() && pieces_[piece] ? (*pieces_[piece])[actor % kPieceActors] : 0;
  }

  void learn(Event event) {
    if ((*this)[event.actor] >= event.seq) return;
    const size_t piece = event.actor / kPieceActors;
    if (pieces_.size() <= piece) pieces_.resize(piece + 1);
    own(piece)[event.actor % kPieceActors] = event.seq;
  }

  void advance(uint32_t actor) { learn({actor, (*this)[actor] + 1}); }

  void join(const Clock& other) {
    if (pieces_.size() < other.pieces_.size()) pieces_.resize(other.pieces_.size());
    for (size_t i = 0; i < other.pieces_.size(); ++i) join_piece(i, other.pieces_[i]);
  }

 private:
  static constexpr uint32_t kPieceActors = 64;
  using Piece = std::array<uint32_t, kPieceActors>;
  using SharedPiece = std::shared_ptr<Piece>;

  Piece& own(size_t i) {
    SharedPiece& piece = pieces_[i];
    if (!piece) {
      piece = std::allocate_shared<Piece>(Counted<Piece>(), Piece{});
    } else if (piece.use_count() > 1) {
      piece = std::allocate_shared<Piece>(Counted<Piece>(), *piece);
    }
    return *piece;
  }

  void join_piece(size_t i, const SharedPiece& theirs) {
    SharedPiece& mine = pieces_[i];
    if (mine == theirs || !theirs) return;
    bool adds = !mine, lacks = false;
    for (size_t a = 0; mine && a < kPieceActors; ++a) {
      adds |= (*theirs)[a] > (*mine)[a];
      lacks |= (*theirs)[a] < (*mine)[a];
    }
    if (!lacks) {
      mine = theirs;
    } else if (adds) {
      Piece& joined = own(i);
      for (size_t a = 0; a < kPieceActors; ++a) joined[a] = std::max(joined[a], (*theirs)[a]);
    }
  }

  std::vector<SharedPiece, Counted<SharedPiece>> pieces_;
};

using SharedClock = std::shared_ptr<const Clock>;

inline bool knows(const Clock& clock, Event event) { return clock[event.actor] >= event.seq; }

inline void learn(Clock& clock, Event event) { clock.learn(event); }

inline void join(Clock& clock, const Clock& other) { clock.join(other); }

}  // namespace stretto::fibre

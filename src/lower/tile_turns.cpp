#include "lower/tile_turns.h"

#include <algorithm>

#include "lower/peer_order.h"

namespace stretto {
namespace {

bool interleaves_owners(const SegmentLowering& state) {
  const Schedule& schedule = state.schedule;
  if (schedule.order != Order::interleaved) return false;
  if (state.pattern.pushes_rows()) return true;
  return state.pattern.adds_slots && schedule.granularity == Granularity::tile &&
         schedule.reduction != Reduction::one_shot;
}

// Tile rows by which the own ones come late. What is sent last has to cross the links, what is
// computed last for oneself has to be reduced: half a wave of own tiles at the end balances the
// two. Sums that travel on (two-shot) must not be late.
int32_t own_lag(const SegmentLowering& state) {
  if (!state.ranks_own_rows() || state.gathers()) return 0;
  const int32_t cols = state.grid.cols();
  return (state.tiles_at_once() / 2 + cols / 2) / cols;
}

// Turns by which the own tiles come late where they are reduced as they are computed: about a
// wave, in which what the others send arrives.
int64_t own_lag_turns(const SegmentLowering& state, int32_t sweep_step) {
  const int32_t pieces = static_cast<int32_t>(state.pieces.all.size());
  const int32_t in_turn = std::max(1, pieces * sweep_step / state.pieces.indices);  // tiles of all
  return (state.tiles_at_once() + in_turn - 1) / in_turn;
}

}  // namespace

TileTurns::TileTurns(const SegmentLowering& state, int rank)
    : state_(state),
      rank_(rank),
      turns_(
          owner_turns(state.schedule.order, state.gathers(), rank, state.op.ranks, state.machine)),
      interleaves_(interleaves_owners(state)),
      sweep_step_(std::max(1, state.schedule.swizzle / state.op.ranks)),
      own_late_(own_late()),
      turn_of_(static_cast<size_t>(state.grid.count()), state.gathers() ? 0 : INT64_MAX),
      owner_turn_(turn_of_.size(), 0),
      foreign_(turn_of_.size(), 0) {
  const Pieces& pieces = state.pieces;
  const bool counts_pieces = !state.schedule.groups.empty();
  for (size_t p = 0; p < pieces.all.size(); ++p) {
    const int64_t turn = turn_of(pieces.all[p]);
    if (counts_pieces) piece_turns_.push_back(turn);
    for (const int32_t tile : pieces.tiles_of(p)) {
      // A tile that overlaps several pieces reads the last of them, or is needed for the first.
      int64_t& of_tile = turn_of_[static_cast<size_t>(tile)];
      const bool decides = state.gathers() ? turn >= of_tile : turn < of_tile;
      of_tile = state.gathers() ? std::max(of_tile, turn) : std::min(of_tile, turn);
      if (interleaves_ && decides) {
        owner_turn_[static_cast<size_t>(tile)] = turns_[static_cast<size_t>(pieces.all[p].owner)];
      }
      if (pieces.all[p].owner != rank) foreign_[static_cast<size_t>(tile)] = 1;
    }
  }
  put_shared_last();
  if (pieces.all.empty()) std::fill(turn_of_.begin(), turn_of_.end(), 0);
  std::sort(piece_turns_.begin(), piece_turns_.end());
}

int64_t TileTurns::pieces_before(int64_t turn) const {
  return std::lower_bound(piece_turns_.begin(), piece_turns_.end(), turn) - piece_turns_.begin();
}

// Each owner adds to its part of a tile as it computes it, and needs the other owners' sums for
// that: so all of them compute it at the same time, which is the end.
void TileTurns::put_shared_last() {
  if (!state_.adds_to_parts() || state_.schedule.order == Order::plain) return;
  const auto begin = static_cast<int32_t>(state_.shards.begin(rank_));
  const auto end = static_cast<int32_t>(state_.shards.end(rank_));
  state_.grid.for_each_overlap({begin, end, 0, static_cast<int32_t>(state_.op.local_n())},
                               [&](int32_t tile) {
                                 if (is_foreign(tile)) {
                                   turn_of_[static_cast<size_t>(tile)] = INT64_MAX;
                                 }
                               });
}

int64_t TileTurns::own_late() const {
  if (!interleaves_) return 0;
  return state_.reduces_with_tiles() ? own_lag_turns(state_, sweep_step_) : own_lag(state_);
}

int64_t TileTurns::turn_of(const Piece& piece) const {
  const Schedule& schedule = state_.schedule;
  const int64_t owners = state_.op.ranks, indices = state_.pieces.indices;
  const bool plain = schedule.order == Order::plain;
  const int owner = piece.owner == Piece::kEveryone ? 0 : turns_[static_cast<size_t>(piece.owner)];
  // Collectives serve all owners together, chunk by chunk.
  if (state_.by_nccl()) return piece.index * owners + (plain ? 0 : owner);
  if (interleaves_) {
    const bool own = piece.owner == rank_;
    if (own && begins_with_own()) return 0;
    if (state_.gathers()) return 1 + piece.index / sweep_step_;
    if (sweep_step_ == 1) return piece.index + (own ? own_late_ : 0);
    if (state_.reduces_with_tiles()) return piece.index / sweep_step_ + (own ? own_late_ : 0);
    return (piece.index + (own ? own_late_ : 0)) / sweep_step_;
  }
  if (schedule.order == Order::interleaved) {
    // What peers send of the same index has arrived when the own tiles of it are added to.
    const bool late = piece.owner == rank_ && state_.reduces_with_tiles();
    return (piece.index + (late ? 1 : 0)) * owners + owner;
  }
  if (schedule.order == Order::arrival) return owner == 0 ? 0 : piece.index * owners + owner;
  // Parts that ranks own in turn are finished round by round.
  const bool in_turn = state_.pattern.adds_slots && !state_.ranks_own_rows();
  if (plain && in_turn && schedule.granularity == Granularity::slice) return piece.index;
  // Chunks and slices are finished (or consumed) one after the other.
  if (schedule.granularity == Granularity::chunk || schedule.granularity == Granularity::slice) {
    return owner * indices + piece.index;
  }
  return plain ? 0 : owner;
}

}  // namespace stretto

// Reductions through slots: partial sums travel to who reduces them, by epilogue or mover; a
// reduce adds one slot of every source in rank order.
#include "lower/due_lists.h"
#include "lower/emit_patterns.h"
#include "lower/free_lanes.h"
#include "lower/peer_order.h"

namespace stretto {
namespace {

class SlotReduce {
 public:
  SlotReduce(Lowering& state, Emitter& emit)
      : state_(state),
        emit_(emit),
        ranks_(state.op.ranks),
        events_(state.schedule.sync == Sync::event),
        two_shot_(state.schedule.reduction == Reduction::two_shot),
        pace_(state.op, state.schedule, state.machine),
        copies_(ranks_),
        reduces_(ranks_),
        of_rank_(static_cast<size_t>(ranks_)),
        piece_of_tile_(static_cast<size_t>(state.grid.count())) {
    for (int rank = 0; rank < ranks_; ++rank) set_up(rank);
    for (size_t p = 0; p < pieces().size(); ++p) {
      for (const int32_t tile : state.pieces.tiles_of(p)) {
        piece_of_tile_[static_cast<size_t>(tile)] = p;
      }
    }
    if (!state.stages_partials()) find_slots();
    find_due();
  }

  void emit() {
    emit_gemm(
        state_, emit_, own_rows_of_a(state_, emit_),
        [&](int rank, int32_t tile) { write_tile(rank, tile); },
        [&](int32_t wave) {
          for (int rank = 0; rank < ranks_; ++rank) {
            copies_.take(rank, wave, [&](size_t p) { copy_to_slots(rank, p, wave); });
          }
          for (int rank = 0; rank < ranks_; ++rank) {
            reduces_.take(rank, wave, [&](size_t one) {
              tiles_of_pieces() ? reduce_tile(rank, of(rank).tiles[one], wave)
                                : reduce(rank, one, wave);
            });
          }
        });
    reduce_after_tiles();
    if (two_shot_) deliver();
  }

 private:
  // A part of a reduce that compute lane `lane` does when its tiles are done.
  struct LateReduce {
    size_t piece;
    Rect part;
    int lane;
    bool staged;  // the own sums lie in `part`
  };
  // Own rows of a tile, where peers' pieces have several.
  struct TileOfPiece {
    size_t piece;
    Rect part;
    int32_t tile;
  };
  struct OfRank {
    std::vector<int> peers;  // in the order in which they are sent to
    FreeLanes comm, compute;
    std::vector<TileOfPiece> tiles;  // what reduces_ lists, where tiles_of_pieces()
    std::vector<LateReduce> late;
    std::vector<size_t> late_sums;  // pieces whose sums are copied after them
  };

  OfRank& of(int rank) { return of_rank_[static_cast<size_t>(rank)]; }
  const std::vector<Piece>& pieces() const { return state_.pieces.all; }
  // Pieces of copy engines are reduced tile by tile.
  bool tiles_of_pieces() const { return state_.stages_partials() && state_.reduces_with_tiles(); }
  // Two-shot by copy engines: the reduce leaves its sum at home and copies take it to the peers.
  bool copies_sums() const { return two_shot_ && state_.schedule.mover == Mover::copy_engine; }

  // Without communication blocks compute lanes reduce the tiles that they own as they compute them.
  // Else reduces go to communication blocks while compute lanes have tiles; those that become
  // possible when tiles end, and what is then left over, to all lanes. With events compute lanes
  // would reduce in a kernel of their own, which is only worth it when there are no such blocks.
  void set_up(int rank) {
    const LaneTable& lanes = state_.lanes;
    of(rank).peers = peer_order(state_.schedule.order, false, rank, ranks_, state_.machine);
    for (int i = 0; i < lanes.comm; ++i) of(rank).comm.add(i, 0);
    for (int i = 0; i < lanes.compute && (!events_ || lanes.comm == 0); ++i) {
      const int64_t tasks = (state_.num_tasks() - i + lanes.compute - 1) / lanes.compute;
      of(rank).compute.add(i, events_ ? 0 : tasks * pace_.task_ns);
    }
  }

  void find_due() {
    std::vector<int64_t> ready(pieces().size(), 0);
    for (int rank = 0; rank < ranks_; ++rank) {
      for (size_t p = 0; p < pieces().size(); ++p) {
        const int64_t when = done(rank, p);
        ready[p] = std::max(ready[p], when);
        if (state_.stages_partials() && pieces()[p].owner != rank) copies_.add(rank, {when, p});
      }
    }
    if (tiles_of_pieces()) {
      find_due_tiles(ready);
    } else {
      for (size_t p = 0; p < pieces().size(); ++p) {
        const int owner = pieces()[p].owner;
        for (int rank = 0; rank < ranks_; ++rank) {
          if (owner == rank || owner == Piece::kEveryone) reduces_.add(rank, {ready[p], p});
        }
      }
    }
    copies_.sort();
    reduces_.sort();
  }

  // A tile that the owner computes after its peers' pieces is due with its own wave, though the
  // piece has others that come later.
  void find_due_tiles(const std::vector<int64_t>& ready) {
    for (size_t p = 0; p < pieces().size(); ++p) {
      const int owner = pieces()[p].owner;
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
        reduces_.add(owner, {whole ? std::max(sent, computed) : ready[p], of(owner).tiles.size()});
        of(owner).tiles.push_back({p, intersect(rect, pieces()[p].rect), tile});
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

  // Where a tile goes that is stored straight into slots: those of source 0.
  void find_slots() {
    for (int32_t tile = 0; tile < state_.grid.count(); ++tile) {
      first_slot_.push_back(slots_.size());
      const Rect& rect = state_.grid.rect(tile);
      if (!state_.ranks_own_rows()) {
        const Piece& piece = pieces()[piece_of_tile_[static_cast<size_t>(tile)]];
        if (piece.owner != Piece::kEveryone) slots_.push_back(slot(piece, rect, piece.owner, 0));
        continue;
      }
      const int last = state_.shards.owner(rect.row1 - 1);
      for (int owner = state_.shards.owner(rect.row0); owner <= last; ++owner) {
        const auto begin = static_cast<int32_t>(state_.shards.begin(owner));
        const auto end = static_cast<int32_t>(state_.shards.end(owner));
        const Rect rows = intersect(rect, {begin, end, rect.col0, rect.col1});
        const int32_t first = state_.pieces.first[static_cast<size_t>(owner)];
        slots_.push_back(slot(pieces()[static_cast<size_t>(first)], rows, owner, 0));
      }
    }
    first_slot_.push_back(slots_.size());
  }

  void write_tile(int rank, int32_t tile) {
    const auto t = static_cast<size_t>(tile);
    const Rect& rect = state_.grid.rect(tile);
    if (state_.adds_to_slot(rank, rect)) {
      const int32_t first = state_.pieces.first[static_cast<size_t>(rank)];
      emit_.write(slot(pieces()[static_cast<size_t>(first)], rect, rank, rank));
    } else if (state_.stages_partials()) {
      emit_.write(region_of(rect, state_.buffers.part, rank));
    } else if (first_slot_[t] < first_slot_[t + 1]) {
      const int32_t down = rank * state_.pieces.slot_rows;
      for (size_t i = first_slot_[t]; i < first_slot_[t + 1]; ++i) {
        Region to = slots_[i];
        to.row0 += down;
        to.row1 += down;
        emit_.write(to);
      }
    } else {  // everyone's
      const Piece& piece = pieces()[piece_of_tile_[t]];
      write_to_slots(piece, rect, rank);
      emit_.write(slot(piece, rect, rank, rank));
    }
  }

  // The slot of `source` for `rect` in the memory of `at`, who reduces it. `piece` holds it or is,
  // where ranks own rows, another of the same owner.
  Region slot(const Piece& piece, const Rect& rect, int at, int source) const {
    const int32_t down = source * state_.pieces.slot_rows + piece.slot_row - piece.rect.row0;
    return region_of(rect.moved(down, piece.slot_col - piece.rect.col0), state_.buffers.slots, at);
  }

  // To the owner's slot, or to those of all peers.
  void write_to_slots(const Piece& piece, const Rect& rect, int source) {
    if (piece.owner != Piece::kEveryone) {
      return emit_.write(slot(piece, rect, piece.owner, source));
    }
    for (const int peer : of(source).peers) emit_.write(slot(piece, rect, peer, source));
  }

  // Parts about as large as a tile, at most as many as there are lanes to share them. Cut between
  // columns of tiles while there are enough, so that a part needs as few tiles as possible.
  std::vector<Rect> parts_of(const Rect& rect, int lanes) const {
    const int32_t tile_n = state_.schedule.tile_n;
    const int64_t tile = int64_t{state_.schedule.tile_m} * tile_n;
    const auto parts =
        static_cast<int32_t>(std::min<int64_t>((rect.elements() + tile - 1) / tile, lanes));
    const int32_t across = std::min(parts, (rect.cols() + tile_n - 1) / tile_n);
    return split(rect, parts / across, across, tile_n);
  }

  int32_t first_tile(size_t p) const { return state_.pieces.tiles_of(p)[0]; }
  // When the tiles of `wave` are done.
  int64_t end_of(int32_t wave) const { return (wave + 1) * pace_.task_ns; }

  void copy_to_slots(int rank, size_t p, int32_t wave) {
    const Piece& piece = pieces()[p];
    if (state_.schedule.mover == Mover::comm_blocks) {
      for (const Rect& part : parts_of(piece.rect, state_.lanes.comm)) {
        const int64_t bytes = 2 * part.elements() * num_bytes(state_.schedule.partials);
        const int lane = of(rank).comm.take(end_of(wave), pace_.move_ns(bytes));
        emit_.read(region_of(part, state_.buffers.part, rank));
        write_to_slots(piece, part, rank);
        emit_.task(state_.lanes.comm_lane(rank, lane), Opcode::copy, first_tile(p));
      }
      return;
    }
    auto copy = [&](int to) {
      emit_.read(region_of(piece.rect, state_.buffers.part, rank));
      emit_.write(slot(piece, piece.rect, to, rank));
      emit_.task(copy_lane(state_, rank, to), Opcode::copy, first_tile(p));
    };
    if (piece.owner != Piece::kEveryone) return copy(piece.owner);
    for (const int peer : of(rank).peers) copy(peer);
  }

  // The compute lane whose last task is the tile that piece `p` is all of; -1 when there is none.
  int lane_of_tile(int rank, size_t p, int32_t wave) const {
    if (!state_.reduces_with_tiles() || state_.pieces.tiles_of(p).size() != 1) return -1;
    return lane_of_tile(rank, first_tile(p), pieces()[p].rect, wave);
  }
  // The same of a part of a piece.
  int lane_of_tile(int rank, int32_t tile, const Rect& part, int32_t wave) const {
    const TileOrder& order = state_.orders[static_cast<size_t>(rank)];
    const auto t = static_cast<size_t>(tile);
    if (order.done_wave[t] != wave || !(state_.grid.rect(tile) == part)) return -1;
    return ((order.position[t] + 1) * state_.splits() - 1) % state_.lanes.compute;
  }

  void reduce_tile(int rank, const TileOfPiece& one, int32_t wave) {
    const bool staged = !state_.adds_to_slot(rank, state_.grid.rect(one.tile));
    if (const int lane = lane_of_tile(rank, one.tile, one.part, wave); lane >= 0) {
      return emit_reduce(rank, one.piece, one.part, state_.lanes.compute_lane(rank, lane), staged);
    }
    OfRank& own = of(rank);
    const int64_t duration = pace_.move_ns(bytes_of_reduce(one.part));
    own.late.push_back({one.piece, one.part, own.compute.take(end_of(wave), duration), staged});
  }

  int64_t bytes_of_reduce(const Rect& part) const {
    return part.elements() *
           (ranks_ * num_bytes(state_.schedule.partials) + num_bytes(state_.op.dtype));
  }

  void reduce(int rank, size_t p, int32_t wave) {
    if (const int lane = lane_of_tile(rank, p, wave); lane >= 0) {
      return emit_reduce(rank, p, pieces()[p].rect, state_.lanes.compute_lane(rank, lane), false);
    }
    OfRank& own = of(rank);
    const bool staged = state_.stages_partials();
    const int lanes = state_.lanes.comm + (own.compute.empty() ? 0 : state_.lanes.compute);
    const auto count = static_cast<int>(reduces_.count(rank));
    bool late = false;
    // Communication blocks share every piece, so that the last one ends soon.
    for (const Rect& part :
         parts_of(pieces()[p].rect, std::max(state_.lanes.comm, (lanes + count - 1) / count))) {
      const int64_t ready = end_of(wave), duration = pace_.move_ns(bytes_of_reduce(part));
      if (own.compute.empty() ||
          (!own.comm.empty() && own.comm.start(ready) <= own.compute.start(ready))) {
        const int lane = own.comm.take(ready, duration);
        emit_reduce(rank, p, part, state_.lanes.comm_lane(rank, lane), staged);
      } else {
        own.late.push_back({p, part, own.compute.take(ready, duration), staged});
        late = true;
      }
    }
    if (!copies_sums()) return;
    if (late) {
      own.late_sums.push_back(p);
    } else {
      copy_sums(rank, p);
    }
  }

  void emit_reduce(int rank, size_t p, const Rect& part, uint32_t lane, bool staged) {
    for (int source = 0; source < ranks_; ++source) {
      emit_.read(staged && source == rank ? region_of(part, state_.buffers.part, rank)
                                          : slot(pieces()[p], part, rank, source));
    }
    const auto begin = static_cast<int32_t>(state_.shards.begin(rank));
    const Rect out = state_.ranks_own_rows() ? part.moved(-begin) : part;
    if (two_shot_ && !copies_sums()) {
      for (const int peer : of(rank).peers) {
        emit_.write(region_of(out, state_.buffers.out, peer));
      }
    }
    emit_.write(region_of(out, state_.buffers.out, rank));
    emit_.task(lane, Opcode::reduce, first_tile(p));
  }

  void copy_sums(int rank, size_t p) {
    for (const int peer : of(rank).peers) {
      emit_.read(region_of(pieces()[p].rect, state_.buffers.out, rank));
      emit_.write(region_of(pieces()[p].rect, state_.buffers.out, peer));
      emit_.task(copy_lane(state_, rank, peer), Opcode::copy, first_tile(p));
    }
  }

  // What compute lanes do after their tiles; with events, in a kernel of its own.
  void reduce_after_tiles() {
    for (int rank = 0; rank < ranks_; ++rank) {
      if (of(rank).late.empty()) continue;
      if (events_) emit_.boundary(rank);
      for (const LateReduce& late : of(rank).late) {
        const uint32_t lane = state_.lanes.compute_lane(rank, late.lane);
        emit_reduce(rank, late.piece, late.part, lane, late.staged);
      }
      if (events_ && two_shot_) emit_.boundary(rank);
    }
    for (int rank = 0; rank < ranks_; ++rank) {
      for (const size_t p : of(rank).late_sums) copy_sums(rank, p);
    }
  }

  // What peers write into this rank's output must have arrived when the run ends.
  void deliver() {
    const LaneTable& lanes = state_.lanes;
    for (int rank = 0; rank < ranks_; ++rank) {
      const std::vector<Rect> received = received_sums(rank);
      if (received.empty()) continue;
      uint32_t lane = lanes.compute_lane(rank, 0);
      if (lanes.comm > 0) {
        int last = lanes.comm - 1;  // that has work
        while (last > 0 && state_.plan.lanes[lanes.comm_lane(rank, last)].instrs.empty()) --last;
        lane = lanes.comm_lane(rank, last);
      } else if (events_) {
        emit_.boundary(rank);
      }
      constexpr size_t kMostRegions = 1024;
      for (size_t i = 0; i < received.size(); ++i) {
        emit_.read(region_of(received[i], state_.buffers.out, rank));
        if ((i + 1) % kMostRegions == 0 || i + 1 == received.size()) {
          emit_.task(lane, Opcode::deliver);
        }
      }
    }
  }

  // What others reduce: runs of tiles in a row, joined with the same ones of the next rows.
  std::vector<Rect> received_sums(int rank) const {
    const TileGrid& grid = state_.grid;
    std::vector<Rect> rects, row;
    size_t above = 0;  // where those of the row before begin
    auto same_columns = [](const Rect& a, const Rect& b) {
      return a.row1 == b.row0 && a.col0 == b.col0 && a.col1 == b.col1;
    };
    for (int32_t r = 0; r < grid.num_rows(); ++r) {
      row.clear();
      for (int32_t tile = r * grid.cols(); tile < (r + 1) * grid.cols(); ++tile) {
        if (pieces()[piece_of_tile_[static_cast<size_t>(tile)]].owner == rank) continue;
        const Rect rect = grid.rect(tile);
        if (!row.empty() && row.back().col1 == rect.col0) {
          row.back().col1 = rect.col1;
        } else {
          row.push_back(rect);
        }
      }
      if (std::equal(rects.begin() + static_cast<std::ptrdiff_t>(above), rects.end(), row.begin(),
                     row.end(), same_columns)) {
        for (size_t i = above; i < rects.size(); ++i) rects[i].row1 = grid.row(r).row1;
      } else {
        above = rects.size();
        rects.insert(rects.end(), row.begin(), row.end());
      }
    }
    return rects;
  }

  Lowering& state_;
  Emitter& emit_;
  const int ranks_;
  const bool events_, two_shot_;
  const Pace pace_;
  DueLists copies_, reduces_;
  std::vector<OfRank> of_rank_;
  std::vector<size_t> piece_of_tile_;  // the only one where no rank owns rows
  std::vector<size_t> first_slot_;     // by tile, in slots_; one more at the end
  std::vector<Region> slots_;
};

}  // namespace

void emit_slot_reduce(Lowering& state, Emitter& emit) { SlotReduce(state, emit).emit(); }

}  // namespace stretto

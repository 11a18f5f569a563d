// Reductions through slots: partial sums travel to who reduces them, by epilogue or mover; a
// reduce adds one slot of every source in rank order.
#include "lower/emit_patterns.h"
#include "lower/peer_order.h"

namespace stretto {
namespace {

// A piece, and when its tiles are computed: wave, then position in the order of tiles.
struct Due {
  int64_t when = 0;
  size_t piece = 0;

  int32_t wave() const { return static_cast<int32_t>(when >> 32); }
  bool operator<(const Due& other) const {
    return when != other.when ? when < other.when : piece < other.piece;
  }
};

// Work of every rank in the order in which it becomes possible.
class DueLists {
 public:
  explicit DueLists(int ranks)
      : lists_(static_cast<size_t>(ranks)), next_(static_cast<size_t>(ranks), 0) {}

  void add(int rank, const Due& due) { lists_[static_cast<size_t>(rank)].push_back(due); }
  void sort() {
    for (std::vector<Due>& list : lists_) std::sort(list.begin(), list.end());
  }
  size_t count(int rank) const { return lists_[static_cast<size_t>(rank)].size(); }

  // Calls work(rank, piece) for what has become possible by the end of `wave`.
  template <typename Work>
  void take(int rank, int32_t wave, const Work& work) {
    const std::vector<Due>& list = lists_[static_cast<size_t>(rank)];
    size_t& next = next_[static_cast<size_t>(rank)];
    for (; next < list.size() && list[next].wave() <= wave; ++next) work(rank, list[next].piece);
  }

 private:
  std::vector<std::vector<Due>> lists_;
  std::vector<size_t> next_;
};

class SlotReduce {
 public:
  SlotReduce(Lowering& state, Emitter& emit)
      : state_(state),
        emit_(emit),
        ranks_(state.op.ranks),
        events_(state.schedule.sync == Sync::event),
        two_shot_(state.schedule.reduction == Reduction::two_shot),
        copies_(ranks_),
        reduces_(ranks_),
        comm_(ranks_, std::max(1, state.lanes.comm)),
        compute_(ranks_, state.lanes.compute, first_free_lane(state)),
        owner_of_tile_(static_cast<size_t>(state.grid.count())) {
    for (int rank = 0; rank < ranks_; ++rank) {
      peers_.push_back(peer_order(state.schedule.order, false, rank, ranks_, state.machine));
    }
    for (size_t p = 0; p < pieces().size(); ++p) {
      for (const int32_t tile : state.pieces.tiles_of(p)) {
        owner_of_tile_[static_cast<size_t>(tile)] = pieces()[p].owner;
      }
    }
    find_due();
  }

  void emit() {
    const bool on_comm = state_.finishes_on_comm();
    emit_gemm(
        state_, emit_, [&](int rank, int32_t tile) { tile_operands(rank, tile); },
        [&](int32_t wave) {
          for (int rank = 0; rank < ranks_; ++rank) {
            copies_.take(rank, wave, [&](int r, size_t p) { copy_to_slots(r, p); });
          }
          for (int rank = 0; on_comm && rank < ranks_; ++rank) {
            reduces_.take(rank, wave, [&](int r, size_t p) {
              reduce(r, p);
              if (copies_sums()) copy_sums(r, p);
            });
          }
        });
    if (!on_comm) reduce_after_tiles();
    if (two_shot_) deliver();
  }

 private:
  const std::vector<Piece>& pieces() const { return state_.pieces.all; }
  // Two-shot by copy engines: the reduce leaves its sum at home and copies take it to the peers.
  bool copies_sums() const { return two_shot_ && state_.schedule.mover == Mover::copy_engine; }

  void find_due() {
    std::vector<int64_t> ready(pieces().size(), 0);
    for (int rank = 0; rank < ranks_; ++rank) {
      const TileOrder& order = state_.orders[static_cast<size_t>(rank)];
      for (size_t p = 0; p < pieces().size(); ++p) {
        int64_t when = 0;
        for (const int32_t tile : state_.pieces.tiles_of(p)) {
          const auto t = static_cast<size_t>(tile);
          when = std::max(when, int64_t{order.done_wave[t]} << 32 | order.position[t]);
        }
        ready[p] = std::max(ready[p], when);
        if (state_.stages_partials() && pieces()[p].owner != rank) copies_.add(rank, {when, p});
      }
    }
    for (size_t p = 0; p < pieces().size(); ++p) {
      const int owner = pieces()[p].owner;
      for (int rank = 0; rank < ranks_; ++rank) {
        if (owner == rank || owner == Piece::kEveryone) reduces_.add(rank, {ready[p], p});
      }
    }
    copies_.sort();
    reduces_.sort();
  }

  void tile_operands(int rank, int32_t tile) {
    const Rect rect = state_.grid.rect(tile);
    read_a(state_, emit_, rank, rect);
    emit_.read(weights_of(state_, rank, rect));
    if (state_.stages_partials()) {
      emit_.write(region_of(rect, state_.buffers.part, rank));
    } else if (state_.ranks_own_rows()) {
      for (int owner = state_.shards.owner(rect.row0); owner <= state_.shards.owner(rect.row1 - 1);
           ++owner) {
        const auto begin = static_cast<int32_t>(state_.shards.begin(owner));
        const auto end = static_cast<int32_t>(state_.shards.end(owner));
        emit_.write(slot(intersect(rect, {begin, end, rect.col0, rect.col1}), owner, rank));
      }
    } else {
      write_to_slots(rect, owner_of_tile_[static_cast<size_t>(tile)], rank);
      if (owner_of_tile_[static_cast<size_t>(tile)] == Piece::kEveryone) {
        emit_.write(slot(rect, rank, rank));
      }
    }
  }

  // The slot of `source` for `rect` in the memory of `at`, who reduces it.
  Region slot(const Rect& rect, int at, int source) const {
    const Pieces& all = state_.pieces;
    const bool everyone = all.share_row.size() == 1;
    const int32_t share_row = everyone ? 0 : all.share_row[static_cast<size_t>(at)];
    return region_of(rect.moved(source * all.slot_rows - share_row), state_.buffers.slots, at);
  }

  // To the owner's slot, or to those of all peers.
  void write_to_slots(const Rect& rect, int owner, int source) {
    if (owner != Piece::kEveryone) return emit_.write(slot(rect, owner, source));
    for (const int peer : peers_[static_cast<size_t>(source)]) {
      emit_.write(slot(rect, peer, source));
    }
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

  void copy_to_slots(int rank, size_t p) {
    const Piece& piece = pieces()[p];
    if (state_.schedule.mover == Mover::comm_blocks) {
      for (const Rect& part : parts_of(piece.rect, state_.lanes.comm)) {
        emit_.read(region_of(part, state_.buffers.part, rank));
        write_to_slots(part, piece.owner, rank);
        emit_.task(state_.lanes.comm_lane(rank, comm_.next(rank)), Opcode::copy, first_tile(p));
      }
      return;
    }
    auto copy = [&](int to) {
      emit_.read(region_of(piece.rect, state_.buffers.part, rank));
      emit_.write(slot(piece.rect, to, rank));
      emit_.task(copy_lane(state_, rank, to), Opcode::copy, first_tile(p));
    };
    if (piece.owner != Piece::kEveryone) return copy(piece.owner);
    for (const int peer : peers_[static_cast<size_t>(rank)]) copy(peer);
  }

  int32_t first_tile(size_t p) const { return state_.pieces.tiles_of(p)[0]; }

  void reduce(int rank, size_t p) {
    const Piece& piece = pieces()[p];
    const bool on_comm = state_.finishes_on_comm();
    // Communication blocks share every piece, so that the last one ends soon; compute lanes have
    // all pieces before them at once.
    const int lanes = on_comm ? state_.lanes.comm
                              : static_cast<int>((static_cast<size_t>(state_.lanes.compute) +
                                                  reduces_.count(rank) - 1) /
                                                 reduces_.count(rank));
    for (const Rect& part : parts_of(piece.rect, lanes)) {
      for (int source = 0; source < ranks_; ++source) {
        const bool staged = state_.stages_partials() && source == rank;
        emit_.read(staged ? region_of(part, state_.buffers.part, rank) : slot(part, rank, source));
      }
      const auto begin = static_cast<int32_t>(state_.shards.begin(rank));
      const Rect out = state_.ranks_own_rows() ? part.moved(-begin) : part;
      if (two_shot_ && !copies_sums()) {
        for (const int peer : peers_[static_cast<size_t>(rank)]) {
          emit_.write(region_of(out, state_.buffers.out, peer));
        }
      }
      emit_.write(region_of(out, state_.buffers.out, rank));
      emit_.task(on_comm ? state_.lanes.comm_lane(rank, comm_.next(rank))
                         : state_.lanes.compute_lane(rank, compute_.next(rank)),
                 Opcode::reduce, first_tile(p));
    }
  }

  void copy_sums(int rank, size_t p) {
    const Piece& piece = pieces()[p];
    for (const int peer : peers_[static_cast<size_t>(rank)]) {
      emit_.read(region_of(piece.rect, state_.buffers.out, rank));
      emit_.write(region_of(piece.rect, state_.buffers.out, peer));
      emit_.task(copy_lane(state_, rank, peer), Opcode::copy, first_tile(p));
    }
  }

  // On the compute lanes, with events as a kernel of its own.
  void reduce_after_tiles() {
    DueLists sums = reduces_;
    for (int rank = 0; rank < ranks_; ++rank) {
      if (reduces_.count(rank) == 0) continue;
      if (events_) emit_.boundary(rank);
      reduces_.take(rank, INT32_MAX, [&](int r, size_t p) { reduce(r, p); });
      if (events_ && two_shot_) emit_.boundary(rank);
    }
    for (int rank = 0; copies_sums() && rank < ranks_; ++rank) {
      sums.take(rank, INT32_MAX, [&](int r, size_t p) { copy_sums(r, p); });
    }
  }

  // What peers write into this rank's output must have arrived when the run ends.
  void deliver() {
    const int32_t count = state_.grid.count();
    for (int rank = 0; rank < ranks_; ++rank) {
      const TileRun own = owned_tiles(count, rank, ranks_);
      if (own.last - own.first == count) continue;
      const bool on_comm = state_.finishes_on_comm();
      if (events_ && !on_comm) emit_.boundary(rank);
      auto read = [&](const Rect& rect) { emit_.read(region_of(rect, state_.buffers.out, rank)); };
      state_.grid.for_each_rect(0, own.first, read);
      state_.grid.for_each_rect(own.last, count, read);
      int lane = on_comm ? state_.lanes.comm - 1 : 0;
      while (on_comm && lane > 0 &&
             state_.plan.lanes[state_.lanes.comm_lane(rank, lane)].instrs.empty()) {
        --lane;
      }
      emit_.task(
          on_comm ? state_.lanes.comm_lane(rank, lane) : state_.lanes.compute_lane(rank, lane),
          Opcode::deliver);
    }
  }

  Lowering& state_;
  Emitter& emit_;
  const int ranks_;
  const bool events_, two_shot_;
  std::vector<std::vector<int>> peers_;  // by rank
  DueLists copies_, reduces_;
  Dealer comm_, compute_;
  std::vector<int32_t> owner_of_tile_;
};

}  // namespace

void emit_slot_reduce(Lowering& state, Emitter& emit) { SlotReduce(state, emit).emit(); }

}  // namespace stretto

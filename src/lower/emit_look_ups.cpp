// Pooled look-ups, then all-to-all: compute lanes add up the rows of a rank's tables for the bags
// of one rank after another, and the bags' owner gets them side by side, table after table.
//
// Who looks up stores to the owner itself, or a mover sends what is whole of a piece. Where the
// caller's tensor is the destination, it lands beside it and a copy takes it there.
#include <algorithm>
#include <memory>

#include "lower/emit_patterns.h"
#include "lower/opcode_of.h"
#include "lower/peer_order.h"
#include "lower/rect.h"

namespace stretto {
namespace {

class LookUps {
 public:
  LookUps(Lowering& state, LookUpLowering& one)
      : state_(state),
        one_(one),
        ranks_(state.op.ranks),
        owners_(one.owners()),
        opcode_(opcode_of(state.op.stage(one.part.stages[0]).kind)),
        emit_(state, one.lanes, state.parts[one.of_part]),
        comm_(ranks_, std::max(1, one.lanes.comm)),
        work_(static_cast<size_t>(ranks_)),
        late_(static_cast<size_t>(ranks_)) {}

  void emit() {
    size_t waves = 0;
    const auto lanes = static_cast<size_t>(one_.lanes.compute);
    for (int rank = 0; rank < ranks_; ++rank) {
      Work& work = of(rank);
      find_work(rank, work);
      waves = std::max(waves, (work.tasks.size() + lanes - 1) / lanes);
    }
    for (size_t wave = 0; wave < waves; ++wave) {
      for (int rank = 0; rank < ranks_; ++rank) {
        const std::vector<Task>& tasks = of(rank).tasks;
        for (size_t i = wave * lanes; i < std::min(tasks.size(), (wave + 1) * lanes); ++i) {
          look_up(rank, static_cast<int32_t>(i), tasks[i]);
        }
      }
      // What was sent a wave ago has come.
      take_home();
      for (int rank = 0; rank < ranks_; ++rank) send_whole(rank, (wave + 1) * lanes);
    }
    one_.by_nccl() ? exchange() : take_home();
  }

  // What compute lanes do when sums have come: behind the tasks of other parts of the rows.
  void finish() { one_.by_nccl() ? put_side_by_side() : take_late_home(); }

 private:
  // Some bags of an owner, counted from its first, and some of the rank's columns.
  struct Task {
    int owner;
    Rect rect;
  };
  // What is sent at once, behind its last task.
  struct Piece {
    int owner;
    Rect rect;
    size_t last;
  };
  struct Work {
    std::vector<Task> tasks;
    std::vector<Piece> pieces;
    size_t sent = 0;
  };
  struct Landed {
    Rect rect;  // of the owner's rows, all columns
    int32_t tile;
  };

  Work& of(int rank) { return work_[static_cast<size_t>(rank)]; }

  // ---- what there is to do

  // Rows of a piece, and what it has of the rank's columns.
  void find_work(int rank, Work& work) {
    std::vector<int> owners(static_cast<size_t>(owners_.ranks), rank);
    if (one_.exchanges()) {
      const std::vector<int> turns =
          owner_turns(one_.schedule.order, false, rank, ranks_, state_.machine);
      for (int owner = 0; owner < ranks_; ++owner) {
        owners[static_cast<size_t>(turns[static_cast<size_t>(owner)])] = owner;
      }
    }
    for (const int owner : owners) {
      const auto rows = static_cast<int32_t>(one_.exchanges() ? owners_.size(owner) : owners_.rows);
      const Rect all{0, rows, 0, one_.cols_of(rank)};
      for (const Rect& piece : pieces_of(all)) add_piece(owner, piece, work);
    }
  }

  std::vector<Rect> pieces_of(const Rect& all) const {
    const Schedule& s = one_.schedule;
    if (all.empty()) return {};
    switch (s.granularity) {
      case Granularity::tile:
        return blocks(all, s.tile_m, one_.tables_of_task());
      case Granularity::slice:
        return blocks(all, s.tile_m, one_.tables_each());
      case Granularity::chunk:
        return split(all, s.chunks, 1, all.cols());
      case Granularity::whole:
      case Granularity::waves:
        break;
    }
    return {all};
  }

  std::vector<Rect> blocks(const Rect& all, int32_t rows, int32_t tables) const {
    const int32_t cols = tables * one_.table_cols();
    std::vector<Rect> found;
    for (int32_t row = all.row0; row < all.row1; row += rows) {
      for (int32_t col = all.col0; col < all.col1; col += cols) {
        found.push_back({row, std::min(row + rows, all.row1), col, std::min(col + cols, all.col1)});
      }
    }
    return found;
  }

  void add_piece(int owner, const Rect& rect, Work& work) const {
    for (const Rect& task : blocks(rect, one_.schedule.tile_m, one_.tables_of_task())) {
      work.tasks.push_back({owner, task});
    }
    work.pieces.push_back({owner, rect, work.tasks.size() - 1});
  }

  // ---- look-ups

  int32_t first_row(int owner) const {
    return static_cast<int32_t>(one_.exchanges() ? owners_.begin(owner) : 0);
  }
  // What `rank` makes for bags of an owner, where that has it.
  Rect at_owner(int rank, const Rect& rect) const {
    return one_.exchanges() ? rect.moved(0, rank * one_.cols_each()) : rect;
  }

  void look_up(int rank, int32_t tile, const Task& task) {
    const int32_t first = task.rect.col0 / one_.table_cols();
    const int32_t last = task.rect.col1 / one_.table_cols();
    const Rect rows = task.rect.moved(first_row(task.owner));
    const auto slots = static_cast<int32_t>(one_.op.k);
    const auto each = static_cast<int32_t>(state_.op.tensor(one_.part.weights[0]).rows);
    const bool has_own = state_.op.tensor(one_.part.ids).held == Held::cols;
    const int32_t before = has_own ? 0 : rank * one_.tables_each();
    emit_.read(region_of({rows.row0, rows.row1, (before + first) * slots, (before + last) * slots},
                         one_.ids, rank));
    emit_.read(region_of({first * each, last * each, 0, one_.table_cols()}, one_.tables, rank));
    emit_.write(place_of(rank, task, rows));
    const uint32_t lane = one_.lanes.compute_lane(rank, tile % one_.lanes.compute);
    emit_.counted_task(lane, opcode_, {each}, tile);
  }

  Region place_of(int rank, const Task& task, const Rect& rows) const {
    if (one_.by_nccl()) return region_of(rows, one_.made, rank);
    const bool is_own = task.owner == rank;
    if (!is_own && one_.is_staged()) return region_of(rows, one_.made, rank);
    return region_of(at_owner(rank, task.rect), is_own ? one_.out : one_.landed, task.owner);
  }

  // ---- on the way

  // What is whole once so many tasks are done.
  void send_whole(int rank, size_t done) {
    Work& work = of(rank);
    for (; work.sent < work.pieces.size() && work.pieces[work.sent].last < done; ++work.sent) {
      const Piece& piece = work.pieces[work.sent];
      if (piece.owner != rank && !one_.by_nccl()) send(rank, piece);
    }
  }

  void send(int rank, const Piece& piece) {
    const Rect there = at_owner(rank, piece.rect);
    const auto tile = static_cast<int32_t>(piece.last);
    if (one_.is_staged()) {
      const bool by_blocks = one_.schedule.mover == Mover::comm_blocks;
      for (const Rect& part : parts(piece.rect, by_blocks ? one_.lanes.comm : 1)) {
        emit_.read(region_of(part.moved(first_row(piece.owner)), one_.made, rank));
        emit_.write(region_of(at_owner(rank, part), one_.landed, piece.owner));
        emit_.task(
            by_blocks ? one_.lanes.comm_lane(rank, comm_.next(rank)) : copy_lane(rank, piece.owner),
            Opcode::copy, tile);
      }
    }
    if (one_.landed == one_.out) return;
    coming_.push_back({piece.owner, {there, tile}});
  }

  uint32_t copy_lane(int rank, int peer) const {
    const bool network = one_.lanes.copy > 1 && !state_.machine.same_node(rank, peer);
    return one_.lanes.copy_lane(rank, network ? 1 : 0);
  }

  // About as large as a task, at most as many as there are lanes to share them.
  std::vector<Rect> parts(const Rect& rect, int lanes) const {
    const int64_t task = int64_t{one_.schedule.tile_m} * one_.tables_of_task() * one_.table_cols();
    const auto count = static_cast<int>(std::clamp<int64_t>(rect.elements() / task, 1, lanes));
    return split(rect, count, 1, rect.cols());
  }

  // By communication blocks, or by compute lanes when they have looked up everything.
  void take_home() {
    for (const auto& [owner, one] : coming_) {
      if (one_.lanes.comm == 0) {
        late_[static_cast<size_t>(owner)].push_back(one);
        continue;
      }
      for (const Rect& part : parts(one.rect, one_.lanes.comm)) {
        copy_home(owner, part, one.tile, one_.lanes.comm_lane(owner, comm_.next(owner)));
      }
    }
    coming_.clear();
  }

  void take_late_home() {
    for (int rank = 0; rank < ranks_; ++rank) {
      const std::vector<Landed>& late = late_[static_cast<size_t>(rank)];
      const int lanes = one_.lanes.compute, count = static_cast<int>(late.size());
      // Lanes that have looked up less go first.
      auto next = static_cast<int>(of(rank).tasks.size() % static_cast<size_t>(lanes));
      for (const Landed& one : late) {
        for (const Rect& part : parts(one.rect, (lanes + count - 1) / count)) {
          copy_home(rank, part, one.tile, one_.lanes.compute_lane(rank, next));
          next = (next + 1) % lanes;
        }
      }
    }
  }

  void copy_home(int rank, const Rect& part, int32_t tile, uint32_t lane) {
    emit_.read(region_of(part, one_.landed, rank));
    emit_.write(region_of(part, one_.out, rank));
    emit_.task(lane, Opcode::copy, tile);
  }

  // ---- by NCCL, which moves whole rows: they are put side by side behind it

  void exchange() {
    for (int rank = 0; rank < ranks_; ++rank) emit_.boundary(rank);
    for (int rank = 0; rank < ranks_; ++rank) {
      for (int to = 0; to < ranks_; ++to) {
        emit_.read(region_of({static_cast<int32_t>(owners_.begin(to)),
                              static_cast<int32_t>(owners_.end(to)), 0, one_.cols_of(rank)},
                             one_.made, rank));
      }
      for (int from = 0; from < ranks_; ++from) {
        emit_.write(region_of(landed(from, rank), one_.landed, rank));
      }
      emit_.collective(rank, CollectiveKind::all_to_all, 0);
    }
  }

  // What a rank has sent another, below what those before it have.
  Rect landed(int from, int rank) const {
    const auto block = static_cast<int32_t>(owners_.block());
    const auto rows = static_cast<int32_t>(owners_.size(rank));
    return {from * block, from * block + rows, 0, one_.cols_of(from)};
  }

  void put_side_by_side() {
    const int32_t cols = one_.cols_each();
    const auto block = static_cast<int32_t>(owners_.block());
    for (int rank = 0; rank < ranks_; ++rank) {
      emit_.boundary(rank);
      int lane = 0;
      for (int from = 0; from < ranks_; ++from) {
        const Rect all = landed(from, rank);
        if (all.empty()) continue;
        for (const Rect& part : parts(all, std::max(1, one_.lanes.compute / ranks_))) {
          emit_.read(region_of(part, one_.landed, rank));
          emit_.write(region_of(part.moved(-from * block, from * cols), one_.out, rank));
          emit_.task(one_.lanes.compute_lane(rank, lane), Opcode::copy);
          lane = (lane + 1) % one_.lanes.compute;
        }
      }
    }
  }

  Lowering& state_;
  const LookUpLowering& one_;
  const int ranks_;
  const RowShards owners_;
  const Opcode opcode_;
  Emitter emit_;
  Dealer comm_;
  std::vector<Work> work_;                      // by rank
  std::vector<std::pair<int, Landed>> coming_;  // to whom
  std::vector<std::vector<Landed>> late_;       // by rank
};

}  // namespace

AfterTiles emit_look_ups(Lowering& state, LookUpLowering& one) {
  const auto look_ups = std::make_shared<LookUps>(state, one);
  look_ups->emit();
  return {[look_ups] { look_ups->finish(); }, {}};
}

}  // namespace stretto

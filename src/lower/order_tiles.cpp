// order_tiles: the order in which every rank computes its tiles, and its kernels and waves.
#include <algorithm>
#include <span>

#include "lower/align_owners.h"
#include "lower/lowering.h"
#include "lower/peer_order.h"
#include "stretto/error.h"

namespace stretto {
namespace {

// Turns: tiles of a lower turn come first; tiles of one turn are swept for L2.
class RankOrder {
 public:
  RankOrder(const Lowering& state, int rank)
      : state_(state),
        rank_(rank),
        turns_(owner_turns(state.schedule.order, state.gathers(), rank, state.op.ranks,
                           state.machine)),
        turn_of_(static_cast<size_t>(state.grid.count()), state.gathers() ? 0 : INT64_MAX),
        owner_turn_(turn_of_.size(), 0),
        foreign_(turn_of_.size(), 0),
        interleaves_(interleaves()),
        sweep_step_(std::max(1, state.schedule.swizzle / state.op.ranks)) {
    if (interleaves_) own_late_ = state.reduces_with_tiles() ? own_lag_turns() : own_lag();
    const Pieces& pieces = state.pieces;
    for (size_t p = 0; p < pieces.all.size(); ++p) {
      const int64_t turn = turn_of(pieces.all[p]);
      piece_turns_.push_back(turn);
      for (const int32_t tile : pieces.tiles_of(p)) {
        // A tile that overlaps several pieces reads the last of them, or is needed for the first.
        int64_t& of_tile = turn_of_[static_cast<size_t>(tile)];
        const bool decides = state_.gathers() ? turn >= of_tile : turn < of_tile;
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

  TileOrder make() {
    TileOrder order;
    order.tiles = sort_tiles();
    if (state_.schedule.cluster > 1) pair_tiles(order.tiles);
    order.position.resize(order.tiles.size());
    for (size_t i = 0; i < order.tiles.size(); ++i) {
      order.position[static_cast<size_t>(order.tiles[i])] = static_cast<int32_t>(i);
    }
    cut_kernels(order);
    number_waves(order);
    return order;
  }

 private:
  // Each owner adds to its part of a tile as it computes it, and needs the other owners' sums for
  // that: so all of them compute it at the same time, which is the end.
  void put_shared_last() {
    if (!state_.adds_to_parts() || state_.schedule.order == Order::plain) return;
    const auto begin = static_cast<int32_t>(state_.shards.begin(rank_));
    const auto end = static_cast<int32_t>(state_.shards.end(rank_));
    state_.grid.for_each_overlap({begin, end, 0, state_.grid.cols() * state_.schedule.tile_n},
                                 [&](int32_t tile) {
                                   const auto t = static_cast<size_t>(tile);
                                   if (foreign_[t] != 0) turn_of_[t] = INT64_MAX;
                                 });
  }

  // Tile rows of all owners in turn make up one sweep.
  bool interleaves() const {
    const Schedule& schedule = state_.schedule;
    if (schedule.order != Order::interleaved) return false;
    if (state_.pattern == Pattern::push_gather) return true;
    return state_.pattern == Pattern::slot_reduce && schedule.granularity == Granularity::tile &&
           schedule.reduction != Reduction::one_shot;
  }

  // Gathers begin with own rows, while those of others are under way.
  bool begins_with_own() const { return state_.gathers() && !state_.gathers_own_rows(); }

  // Tile rows by which the own ones come late. What is sent last has to cross the links, what is
  // computed last for oneself has to be reduced: half a wave of own tiles at the end balances the
  // two. Sums that travel on (two-shot) must not be late.
  int32_t own_lag() const {
    if (!state_.ranks_own_rows() || state_.gathers()) return 0;
    const int32_t cols = state_.grid.cols();
    return (state_.tiles_at_once() / 2 + cols / 2) / cols;
  }

  // Turns by which the own tiles come late where they are reduced as they are computed: about a
  // wave, in which what the others send arrives.
  int64_t own_lag_turns() const {
    const int32_t pieces = static_cast<int32_t>(state_.pieces.all.size());
    const int32_t in_turn =
        std::max(1, pieces * sweep_step_ / state_.pieces.indices);  // tiles of all
    return (state_.tiles_at_once() + in_turn - 1) / in_turn;
  }

  int64_t turn_of(const Piece& piece) const {
    const Schedule& schedule = state_.schedule;
    const int64_t owners = state_.op.ranks, indices = state_.pieces.indices;
    const bool plain = schedule.order == Order::plain;
    const int owner =
        piece.owner == Piece::kEveryone ? 0 : turns_[static_cast<size_t>(piece.owner)];
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
    const bool in_turn = state_.pattern == Pattern::slot_reduce && !state_.ranks_own_rows();
    if (plain && in_turn && schedule.granularity == Granularity::slice) return piece.index;
    // Chunks and slices are finished (or consumed) one after the other.
    if (schedule.granularity == Granularity::chunk || schedule.granularity == Granularity::slice) {
      return owner * indices + piece.index;
    }
    return plain ? 0 : owner;
  }

  std::vector<int32_t> sort_tiles() {
    const TileGrid& grid = state_.grid;
    std::vector<int32_t> tiles(static_cast<size_t>(grid.count()));
    if (state_.pattern == Pattern::packed_reduce) {
      for (size_t i = 0; i < tiles.size(); ++i) tiles[i] = static_cast<int32_t>(i);
      std::sort(tiles.begin(), tiles.end(), [&](int32_t a, int32_t b) {
        return state_.packing.sequence[static_cast<size_t>(a)] <
               state_.packing.sequence[static_cast<size_t>(b)];
      });
      return tiles;
    }
    for (size_t i = 0; i < tiles.size(); ++i) tiles[i] = static_cast<int32_t>(i);
    const auto turn = [&](int32_t tile) { return turn_of_[static_cast<size_t>(tile)]; };
    sort_by(tiles, turn);
    for (size_t first = 0, last = 0; first < tiles.size(); first = last) {
      for (last = first; last < tiles.size() && turn(tiles[last]) == turn(tiles[first]);) ++last;
      order_turn(std::span(tiles).subspan(first, last - first));
    }
    return tiles;
  }

  // Tiles of one turn, which come row by row: column by column of a sweep, of all rows where those
  // of owners take turns.
  void order_turn(std::span<int32_t> tiles) {
    const auto col = [&](int32_t tile) { return state_.grid.col_of(tile); };
    const bool own_only =
        begins_with_own() && turn_of_[static_cast<size_t>(tiles[0])] == 0;  // swept as ever
    if (interleaves_ && !own_only) {
      sort_by(tiles, [&](int32_t tile) { return owner_turn_[static_cast<size_t>(tile)]; });
      return sort_by(tiles, col);
    }
    const auto row = [&](int32_t tile) { return state_.grid.row_of(tile); };
    const int32_t first_row = row(tiles[0]), sweep_rows = state_.schedule.swizzle;
    for (size_t first = 0, last = 0; first < tiles.size(); first = last) {
      const int32_t sweep = (row(tiles[first]) - first_row) / sweep_rows;
      const int64_t end = (first_row + (sweep + 1) * int64_t{sweep_rows}) * state_.grid.cols();
      for (last = first; last < tiles.size() && tiles[last] < end;) ++last;
      sort_by(tiles.subspan(first, last - first), col);
    }
  }

  // Sorts by a number of each; those of one number keep their order.
  template <typename Number>
  void sort_by(std::span<int32_t> tiles, const Number& number) {
    int64_t least = INT64_MAX, most = INT64_MIN;
    numbers_.clear();
    for (const int32_t tile : tiles) {
      const int64_t of_tile = number(tile);
      numbers_.push_back(of_tile);
      least = std::min(least, of_tile);
      most = std::max(most, of_tile);
    }
    if (most <= least) return;
    if (most - least > 4 * static_cast<int64_t>(tiles.size()) + 64) {  // few of the numbers occur
      std::stable_sort(tiles.begin(), tiles.end(),
                       [&](int32_t a, int32_t b) { return number(a) < number(b); });
      return;
    }
    next_.assign(static_cast<size_t>(most - least) + 2, 0);
    for (const int64_t of_tile : numbers_) ++next_[static_cast<size_t>(of_tile - least) + 1];
    for (size_t i = 1; i < next_.size(); ++i) next_[i] += next_[i - 1];
    unsorted_.assign(tiles.begin(), tiles.end());
    for (size_t i = 0; i < unsorted_.size(); ++i) {
      tiles[next_[static_cast<size_t>(numbers_[i] - least)]++] = unsorted_[i];
    }
  }

  // Clusters compute two tiles of one column side by side. The tile rows of a gather are paired as
  // the rank comes to them, the same in every column, and a pair comes where the later of its tiles
  // would: when the rows of both are there. Their number is even.
  void pair_tiles(std::vector<int32_t>& tiles) const {
    const TileGrid& grid = state_.grid;
    std::vector<int32_t> partner(static_cast<size_t>(grid.num_rows()));  // by tile row
    int32_t earlier = -1;  // the tile row that has none yet
    for (const int32_t tile : tiles) {
      if (grid.col_of(tile) != 0) continue;
      const int32_t row = grid.row_of(tile);
      if (earlier >= 0) {
        partner[static_cast<size_t>(earlier)] = row;
        partner[static_cast<size_t>(row)] = earlier;
      }
      earlier = earlier < 0 ? row : -1;
    }
    STRETTO_ASSERT(earlier < 0, "a legal schedule pairs all tile rows");
    std::vector<int32_t> paired;
    paired.reserve(tiles.size());
    std::vector<bool> met(tiles.size(), false);
    for (const int32_t tile : tiles) {
      const int32_t other =
          partner[static_cast<size_t>(grid.row_of(tile))] * grid.cols() + grid.col_of(tile);
      met[static_cast<size_t>(tile)] = true;
      if (!met[static_cast<size_t>(other)]) continue;
      paired.push_back(other);
      paired.push_back(tile);
    }
    tiles = std::move(paired);
  }

  int64_t pieces_before(int64_t turn) const {
    return std::lower_bound(piece_turns_.begin(), piece_turns_.end(), turn) - piece_turns_.begin();
  }

  // Tiles that may share a kernel: all, or those of one chunk or one group of chunks.
  int64_t batch_of(int32_t tile) const {
    if (!state_.kernel_per_chunk()) return 0;
    const int64_t turn = turn_of_[static_cast<size_t>(tile)];
    const int64_t chunk = state_.by_nccl() ? turn / state_.op.ranks : turn;
    const std::vector<int>& groups = state_.schedule.groups;
    if (groups.empty()) return chunk;
    // By arrival the own chunks share a turn and others have none: chunks are counted.
    const int64_t before = state_.by_nccl() ? chunk : pieces_before(turn);
    int64_t group = 0, end = 0;
    for (const int size : groups) {
      end += size;
      if (before < end) break;
      ++group;
    }
    return group;
  }

  // Kernels end where a stream must know: before tiles that read what others send, after tiles
  // whose data others await. Chunks that need neither join their neighbours.
  void cut_kernels(TileOrder& order) const {
    const bool events = state_.schedule.sync == Sync::event && state_.pattern != Pattern::local;
    const auto count = static_cast<int32_t>(order.tiles.size());
    Kernel kernel;
    for (int32_t i = 0; i < count;) {
      const int64_t batch = batch_of(order.tiles[static_cast<size_t>(i)]);
      int32_t end = i;
      bool others = state_.by_nccl() || (!state_.gathers() && state_.comm_lanes() > 0);
      for (; end < count && batch_of(order.tiles[static_cast<size_t>(end)]) == batch; ++end) {
        others |= foreign_[static_cast<size_t>(order.tiles[static_cast<size_t>(end)])] != 0;
      }
      if (events && others && state_.gathers()) {
        if (i > kernel.first) order.kernels.push_back(kernel);
        kernel = {i, i, 0, 0, true, false};
      }
      kernel.last = end;
      if (events && others && !state_.gathers()) {
        kernel.closes = true;
        order.kernels.push_back(kernel);
        kernel = {end, end, 0, 0, false, false};
      }
      i = end;
    }
    if (kernel.first < kernel.last) order.kernels.push_back(kernel);
    // Stores into peers' slots may have to wait until the slots are free.
    if (events && state_.pattern == Pattern::slot_reduce && !state_.stages_partials()) {
      order.kernels.front().opens = true;
    }
  }

  void number_waves(TileOrder& order) const {
    const int32_t lanes = state_.compute_lanes(), splits = state_.splits();
    const bool events = state_.schedule.sync == Sync::event;
    order.done_wave.resize(order.tiles.size());
    for (Kernel& kernel : order.kernels) {
      kernel.first_wave = order.waves;
      const int32_t tasks = (kernel.last - kernel.first) * splits;
      kernel.end_wave = order.waves + (tasks + lanes - 1) / lanes;
      int32_t wave = kernel.first_wave;
      int32_t left = lanes;  // tasks of this wave
      for (int32_t i = kernel.first; i < kernel.last; ++i) {
        for (left -= splits; left < 0; left += lanes) ++wave;
        order.done_wave[static_cast<size_t>(order.tiles[static_cast<size_t>(i)])] =
            events ? kernel.end_wave - 1 : wave;
      }
      order.waves = kernel.end_wave;
    }
  }

  const Lowering& state_;
  const int rank_;
  const std::vector<int> turns_;
  std::vector<int64_t> piece_turns_;  // ascending
  std::vector<int64_t> turn_of_;      // by tile
  std::vector<int32_t> owner_turn_;   // by tile: its place among those of one turn and column
  std::vector<uint8_t> foreign_;      // by tile: another rank holds or reduces some of it
  const bool interleaves_;
  const int32_t sweep_step_;  // of these: tile rows of an owner in a turn
  int64_t own_late_ = 0;      // own_lag_turns() or own_lag()
  // Scratch of sort_by().
  std::vector<int64_t> numbers_;
  std::vector<int32_t> unsorted_;
  std::vector<uint32_t> next_;
};

}  // namespace

void order_tiles(Draft& draft) {
  Lowering& state = lowering(draft);
  state.orders.reserve(static_cast<size_t>(state.op.ranks));
  for (int rank = 0; rank < state.op.ranks; ++rank) {
    state.orders.push_back(RankOrder(state, rank).make());
  }
  align_owners(state);
}

}  // namespace stretto

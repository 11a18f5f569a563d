// order_tiles: the order in which every rank computes its tiles, and its kernels and waves.
#include <algorithm>
#include <numeric>
#include <span>

#include "lower/align_owners.h"
#include "lower/cut_kernels.h"
#include "lower/lowering.h"
#include "lower/pair_tiles.h"
#include "lower/tile_turns.h"

namespace stretto {
namespace {

// Sorts tiles turn by turn, and those of a turn for L2.
class TileSorter {
 public:
  TileSorter(const SegmentLowering& state, const TileTurns& turns) : state_(state), turns_(turns) {}

  std::vector<int32_t> sorted() {
    std::vector<int32_t> tiles(static_cast<size_t>(state_.grid.count()));
    std::iota(tiles.begin(), tiles.end(), 0);
    if (state_.pattern.packs) {
      std::sort(tiles.begin(), tiles.end(), [&](int32_t a, int32_t b) {
        return state_.packing.sequence[static_cast<size_t>(a)] <
               state_.packing.sequence[static_cast<size_t>(b)];
      });
      return tiles;
    }
    const auto turn = [&](int32_t tile) { return turns_.of(tile); };
    sort_by(tiles, turn);
    for (size_t first = 0, last = 0; first < tiles.size(); first = last) {
      for (last = first; last < tiles.size() && turn(tiles[last]) == turn(tiles[first]);) ++last;
      order_turn(std::span(tiles).subspan(first, last - first));
    }
    return tiles;
  }

 private:
  // Tiles of one turn, which come row by row: column by column of a sweep, of all rows where those
  // of owners take turns.
  void order_turn(std::span<int32_t> tiles) {
    const auto col = [&](int32_t tile) { return state_.grid.col_of(tile); };
    if (turns_.interleaves(turns_.of(tiles[0]))) {
      sort_by(tiles, [&](int32_t tile) { return turns_.owner_turn(tile); });
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

  const SegmentLowering& state_;
  const TileTurns& turns_;
  // Scratch of sort_by().
  std::vector<int64_t> numbers_;
  std::vector<int32_t> unsorted_;
  std::vector<uint32_t> next_;
};

TileOrder order_of(const SegmentLowering& state, int rank) {
  const TileTurns turns(state, rank);
  TileOrder order;
  order.tiles = TileSorter(state, turns).sorted();
  if (state.has_own_tiles()) {  // the last ranks may have fewer rows
    std::erase_if(order.tiles, [&](int32_t tile) { return state.rect_of(rank, tile).empty(); });
  }
  if (state.schedule.cluster > 1) order.tiles = pair_tiles(state.grid, order.tiles);
  order.position.resize(static_cast<size_t>(state.grid.count()));
  for (size_t i = 0; i < order.tiles.size(); ++i) {
    order.position[static_cast<size_t>(order.tiles[i])] = static_cast<int32_t>(i);
  }
  cut_kernels(state, turns, order);
  number_waves(state, order);
  return order;
}

}  // namespace

void order_tiles(SegmentLowering& state) {
  state.orders.reserve(static_cast<size_t>(state.op.ranks));
  for (int rank = 0; rank < state.op.ranks; ++rank) state.orders.push_back(order_of(state, rank));
  align_owners(state);
}

}  // namespace stretto

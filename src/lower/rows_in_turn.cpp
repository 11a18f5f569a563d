#include "lower/rows_in_turn.h"

#include <algorithm>

namespace stretto {
namespace {

struct Interval {
  int32_t row0, row1;
};

// Whether the last wave of some rank makes a part of the sums of a row of tiles.
bool is_late(const SegmentLowering& product, int32_t tile_row) {
  const TileGrid& grid = product.grid;
  for (int rank = 0; rank < product.op.ranks; ++rank) {
    const TileOrder& order = product.orders[static_cast<size_t>(rank)];
    for (int32_t col = 0; col < grid.cols(); ++col) {
      const auto tile = static_cast<size_t>(tile_row * grid.cols() + col);
      if (order.done_wave[tile] + 1 == order.waves) return true;
    }
  }
  return false;
}

class RowDealer {
 public:
  explicit RowDealer(int32_t lanes) : lanes_(lanes) {}

  // As many to every lane; those that get one more are the last ones, or the first if `turned`.
  void deal(const std::vector<Interval>& rows, bool turned) {
    int64_t count = 0, before = 0;
    for (const Interval& one : rows) count += one.row1 - one.row0;
    for (const Interval& one : rows) {
      for (int32_t row = one.row0; row < one.row1;) {
        const int64_t at = before + row - one.row0;
        const int64_t lane = ((at + 1) * lanes_ - 1) / count;
        const int64_t end = (lane + 1) * count / lanes_;  // of the lane's rows
        const auto row1 = static_cast<int32_t>(std::min<int64_t>(one.row1, row + end - at));
        const auto of = static_cast<int32_t>(lane);
        dealt_.push_back({turned ? lanes_ - 1 - of : of, row, row1});
        row = row1;
      }
      before += one.row1 - one.row0;
    }
  }
  std::vector<RowsOfLane> take() { return std::move(dealt_); }

 private:
  const int32_t lanes_;
  std::vector<RowsOfLane> dealt_;
};

}  // namespace

std::vector<RowsOfLane> rows_in_turn(const SegmentLowering& product, int rank) {
  const bool has_own = product.ranks_own_rows();
  const auto begin = static_cast<int32_t>(has_own ? product.shards.begin(rank) : 0);
  const auto end = static_cast<int32_t>(has_own ? product.shards.end(rank) : product.op.local_m());
  std::vector<Interval> early, late;
  for (int32_t row = 0; row < product.grid.num_rows(); ++row) {
    const TileRow& tiles = product.grid.row(row);
    const Interval rows{std::max(begin, tiles.row0) - begin, std::min(end, tiles.row1) - begin};
    if (rows.row0 >= rows.row1) continue;
    (is_late(product, row) ? late : early).push_back(rows);
  }
  RowDealer dealer(product.lanes.compute);
  dealer.deal(early, false);
  dealer.deal(late, true);
  return dealer.take();
}

}  // namespace stretto

#include "lower/tile_shares.h"

#include "lower/row_layout.h"

namespace stretto {
namespace {

constexpr int kPartsEach = 8;

// The pieces of the tiles [first, last) of one owner, whose slots are laid out like the output from
// the run's first row on.
class RunCutter {
 public:
  RunCutter(const TileGrid& grid, const Schedule& schedule, Pieces& pieces)
      : grid_(grid), schedule_(schedule), pieces_(pieces) {}

  void cut(int32_t first, int32_t last, int32_t owner) {
    pieces_.begin_owner();
    if (first == last) return;
    owner_ = owner;
    const int32_t row0 = grid_.row_of(first), row1 = grid_.row_of(last - 1) + 1;
    share_row_ = grid_.row(row0).row0;
    switch (schedule_.granularity) {
      case Granularity::tile:
        for (int32_t tile = first; tile < last; ++tile) add(tile, tile + 1, 0);
        break;
      case Granularity::slice: {
        const int32_t step = slice_rows(schedule_, row1 - row0);
        for (int32_t row = row0; row < row1; row += step) {
          add(std::max(first, row * grid_.cols()), std::min(last, (row + step) * grid_.cols()),
              (row - row0) / step);
        }
        break;
      }
      case Granularity::whole:
      case Granularity::chunk:
      case Granularity::waves: {
        const std::vector<int> equal(static_cast<size_t>(schedule_.chunks), 1);
        const std::vector<int32_t> cuts = cut_rows(last - first, equal, 1);
        for (size_t c = 0; c + 1 < cuts.size(); ++c) {
          add(first + cuts[c], first + cuts[c + 1], static_cast<int32_t>(c));
        }
      }
    }
  }

 private:
  void add(int32_t first, int32_t last, int32_t index) {
    grid_.for_each_rect(first, last, [&](const Rect& rect) {
      pieces_.add({rect, owner_, index, rect.row0 - share_row_, rect.col0});
    });
  }

  const TileGrid& grid_;
  const Schedule& schedule_;
  Pieces& pieces_;
  int32_t owner_ = 0, share_row_ = 0;
};

// Tiles [first, last) of one tile row.
struct RowPart {
  int32_t first = 0, last = 0;
};

// In the order of a plain sweep: `swizzle` tile rows, part by part, before the next ones.
std::vector<RowPart> cut_row_parts(const TileGrid& grid, int32_t tiles_each, int32_t swizzle) {
  const std::vector<int> equal(static_cast<size_t>((grid.cols() + tiles_each - 1) / tiles_each), 1);
  const std::vector<int32_t> cuts = cut_rows(grid.cols(), equal, 1);
  std::vector<RowPart> parts;
  for (int32_t sweep = 0; sweep < grid.num_rows(); sweep += swizzle) {
    for (size_t c = 0; c + 1 < cuts.size(); ++c) {
      for (int32_t row = sweep; row < std::min(sweep + swizzle, grid.num_rows()); ++row) {
        parts.push_back({row * grid.cols() + cuts[c], row * grid.cols() + cuts[c + 1]});
      }
    }
  }
  return parts;
}

}  // namespace

int32_t slice_rows(const Schedule& schedule, int32_t tile_rows) {
  return std::min(schedule.swizzle, std::max(1, (tile_rows + 3) / 4));
}

void share_with_everyone(const TileGrid& grid, const Schedule& schedule, Pieces& pieces) {
  RunCutter(grid, schedule, pieces).cut(0, grid.count(), Piece::kEveryone);
}

void share_runs(const TileGrid& grid, const Schedule& schedule, int ranks, Pieces& pieces) {
  RunCutter cutter(grid, schedule, pieces);
  const int64_t count = grid.count();
  for (int64_t owner = 0; owner < ranks; ++owner) {
    cutter.cut(static_cast<int32_t>(count * owner / ranks),
               static_cast<int32_t>(count * (owner + 1) / ranks), static_cast<int32_t>(owner));
  }
}

void share_in_turn(const TileGrid& grid, const Schedule& schedule, int ranks, Pieces& pieces) {
  const int32_t each = std::clamp(grid.count() / (kPartsEach * ranks), 1, grid.cols());
  const std::vector<RowPart> parts = cut_row_parts(grid, each, schedule.swizzle);
  for (int owner = 0; owner < ranks; ++owner) {
    pieces.begin_owner();
    for (size_t i = static_cast<size_t>(owner); i < parts.size(); i += static_cast<size_t>(ranks)) {
      const auto index = static_cast<int32_t>(i / static_cast<size_t>(ranks));
      const int32_t slot_row = index * schedule.tile_m;
      const int32_t col0 = grid.rect(parts[i].first).col0;
      const bool by_tile = schedule.granularity == Granularity::tile;
      for (int32_t tile = parts[i].first; tile < parts[i].last; ++tile) {
        Rect rect = grid.rect(tile);
        if (!by_tile) rect.col1 = grid.rect(parts[i].last - 1).col1;
        pieces.add({rect, owner, index, slot_row, rect.col0 - col0});
        if (!by_tile) break;
      }
    }
  }
}

}  // namespace stretto

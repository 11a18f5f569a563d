#include "sync/alike_touches.h"

namespace stretto {

AlikeTouches::AlikeTouches(const AlikeRanks& alike, std::span<const CellGrid> grids)
    : alike_(alike), grids_(grids) {
  for (const CellGrid& grid : grids) {
    first_cell_.push_back(static_cast<uint32_t>(cells_each_));
    cells_each_ += grid ? grid.count() : 0;
  }
  cells_.assign(static_cast<size_t>(alike.ranks()) * cells_each_, 0);
}

uint64_t AlikeTouches::part_of(const Region& cell, const Region& region) {
  uint64_t part = 0;
  const auto add = [&](int32_t place) { part = mixed(part + static_cast<uint32_t>(place) + 1); };
  add(std::max(region.row0, cell.row0) - cell.row0);
  add(std::min(region.row1, cell.row1) - cell.row0);
  add(std::max(region.col0, cell.col0) - cell.col0);
  add(std::min(region.col1, cell.col1) - cell.col0);
  return part;
}

bool AlikeTouches::are_those_of_all_ranks() const {
  uint64_t of_rank_0 = 0;
  for (int rank = 0; rank < alike_.ranks(); ++rank) {
    const std::span<const uint64_t> memory =
        std::span(cells_).subspan(static_cast<size_t>(rank) * cells_each_, cells_each_);
    uint64_t sum = 0;  // of the cells in any order
    for (size_t buffer = 0; buffer < grids_.size(); ++buffer) {
      const size_t count = grids_[buffer] ? grids_[buffer].count() : 0;
      for (const uint64_t cell : memory.subspan(first_cell_[buffer], count)) {
        if (cell != 0) sum += mixed(cell + buffer);
      }
    }
    if (rank == 0) of_rank_0 = sum;
    if (sum != of_rank_0) return false;
  }
  return true;
}

}  // namespace stretto

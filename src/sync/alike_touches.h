// Whether ranks that are alike in their lanes are so in what they touch.
#pragma once

#include <span>
#include <vector>

#include "stretto/plan.h"
#include "sync/alike_ranks.h"
#include "sync/cell_grid.h"

namespace stretto {

// Every memory has to be touched as rank 0's is: there is a cell for each of its cells, which the
// images of the same instructions touch in the same order. Then what depends on what is the same
// too.
//
// Of each cell a number of 64 bits says who touches what of it, and in which order: other touches
// have another one but in one of 2^64 cases. Memories with the same numbers are alike.
class AlikeTouches {
 public:
  AlikeTouches(const AlikeRanks& alike, std::span<const CellGrid> grids);

  // The touch of a region by the instruction `at`, to be told cell by cell.
  class Touch {
   public:
    // `all`: of all of the cell.
    void add(uint32_t number, bool all) const {
      const uint64_t one = all ? number_ : mixed(part_of(grid_->cell(number), region_) + number_);
      cells_[number] = mixed(cells_[number] + one + 1);
    }

   private:
    friend class AlikeTouches;
    uint64_t number_ = 0;
    uint64_t* cells_ = nullptr;  // of the region's buffer, in its rank's memory
    const CellGrid* grid_ = nullptr;
    Region region_;
  };
  // Those of all instructions, in the order of the program.
  Touch touch(uint32_t at, const Region& region, bool is_write) {
    Touch touch;
    touch.number_ = uint64_t{alike_.number_seen_by(region.rank, at)} * 2 + (is_write ? 1 : 0);
    touch.cells_ = &cells_[region.rank * cells_each_ + first_cell_[region.buffer]];
    touch.grid_ = &grids_[region.buffer];
    touch.region_ = region;
    return touch;
  }
  // Once all are told.
  bool are_those_of_all_ranks() const;

 private:
  // Bijective, and every bit of the result depends on every bit of the value.
  static uint64_t mixed(uint64_t value) {
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
    value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
    return value ^ (value >> 31);
  }
  // A number for what of a cell the region touches, counted from the cell's corner.
  static uint64_t part_of(const Region& cell, const Region& region);

  const AlikeRanks& alike_;
  std::span<const CellGrid> grids_;   // by buffer
  std::vector<uint32_t> first_cell_;  // by buffer
  size_t cells_each_ = 0;             // of a memory
  std::vector<uint64_t> cells_;       // by memory and cell; 0: it is not touched
};

}  // namespace stretto

#include "sync/alike_touches.h"

namespace stretto {
namespace {

// What of a cell the region touches, counted from the cell's corner.
Region part_of(const Region& cell, const Region& region) {
  return {std::max(region.row0, cell.row0) - cell.row0,
          std::min(region.row1, cell.row1) - cell.row0,
          std::max(region.col0, cell.col0) - cell.col0,
          std::min(region.col1, cell.col1) - cell.col0,
          0,
          0};
}

}  // namespace

AlikeTouches::AlikeTouches(const Plan& plan, const AlikeRanks& alike,
                           std::span<const CellGrid> grids)
    : plan_(plan), alike_(alike), grids_(grids), first_of_instr_(alike.count(), kNone) {
  uint32_t cells = 0;
  for (const CellGrid& grid : grids) {
    first_cell_.push_back(cells);
    cells += grid ? grid.count() : 0;
  }
  first_cell_.push_back(cells);
  last_of_cell_.assign(cells, kNone);
}

void AlikeTouches::add(uint32_t at, const Region& region, bool is_write) {
  const CellGrid& grid = grids_[region.buffer];
  const uint32_t first_cell = first_cell_[region.buffer];
  const Access access = access_of(0, at, is_write);
  grid.for_each(region, [&](uint32_t number, bool all) {
    const auto touch = static_cast<uint32_t>(touches_.size());
    uint32_t part = kNone;
    if (!all) {
      part = static_cast<uint32_t>(parts_.size());
      parts_.push_back(part_of(grid.cell(number), region));
    }
    uint32_t& last = last_of_cell_[first_cell + number];
    touches_.push_back({access, part, first_cell + number, kNone, region.buffer, last == kNone});
    if (last != kNone) touches_[last].next = touch;
    last = touch;
    uint32_t& first_of_instr = first_of_instr_[access / 2];
    if (first_of_instr == kNone) first_of_instr = touch;
  });
}

uint32_t AlikeTouches::first_touch(const Seen& seen, const std::vector<bool>& is_taken) const {
  const size_t taken = seen.memory * size_t{first_cell_.back()};
  for (uint32_t i = first_of_instr_[seen.access / 2];
       i < touches_.size() && touches_[i].access / 2 == seen.access / 2; ++i) {
    const Touch& own = touches_[i];
    if (own.is_first && own.buffer == seen.buffer && is_like(own, seen) &&
        !is_taken[taken + own.cell]) {
      return i;
    }
  }
  return kNone;
}

bool AlikeTouches::are_those_of_all_ranks(std::span<const TaskOperands> tasks) const {
  const auto ranks = static_cast<size_t>(alike_.ranks());
  const size_t cells = first_cell_.back();
  // By memory and cell: the touch of rank 0's memory that the next one there has to be like.
  std::vector<uint32_t> expected(ranks * cells, kUnknown);
  std::vector<bool> is_taken(ranks * cells, false);  // by memory and cell of rank 0's
  size_t count = 0;
  const auto touch_one = [&](uint32_t& next, const Seen& seen) {
    if (next == kUnknown) {
      next = first_touch(seen, is_taken);
      if (next != kNone) is_taken[seen.memory * cells + touches_[next].cell] = true;
    }
    if (next == kNone || !is_like(touches_[next], seen)) return false;
    next = touches_[next].next;
    ++count;
    return true;
  };
  const auto look = [&](uint32_t at, const Region& region, bool is_write) {
    if (region.empty()) return true;
    const CellGrid& grid = grids_[region.buffer];
    if (!grid) return !is_write;  // rank 0 writes nothing there
    if (region.rank == 0) return true;
    Seen seen{access_of(region.rank, at, is_write), region.buffer, region.rank, nullptr};
    uint32_t* const expected_here = &expected[region.rank * cells + first_cell_[region.buffer]];
    if (const uint32_t cell = grid.only_cell(region); cell != CellGrid::kNone) {
      return touch_one(expected_here[cell], seen);
    }
    bool same = true;
    grid.for_each(region, [&](uint32_t number, bool all) {
      Region part;
      if (!all) part = part_of(grid.cell(number), region);
      seen.part = all ? nullptr : &part;
      same = same && touch_one(expected_here[number], seen);
    });
    return same;
  };
  for (const TaskOperands& task : tasks) {
    for (const Region& region : task.reads(plan_)) {
      if (!look(task.at, region, false)) return false;
    }
    for (const Region& region : task.writes(plan_)) {
      if (!look(task.at, region, true)) return false;
    }
  }
  // Each is like another one of rank 0's memory: where they are as many, they are like all of them.
  return count == (ranks - 1) * touches_.size();
}

}  // namespace stretto

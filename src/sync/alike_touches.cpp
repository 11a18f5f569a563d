#include "sync/alike_touches.h"

#include "sync/program_tasks.h"

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

AlikeTouches::AlikeTouches(const Draft& draft, const AlikeRanks& alike,
                           std::span<const CellGrid> grids)
    : draft_(draft), alike_(alike), grids_(grids), first_of_instr_(draft.program.size(), kNone) {
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

bool AlikeTouches::are_those_of_all_ranks() const {
  const auto ranks = static_cast<size_t>(alike_.ranks());
  const size_t cells = first_cell_.back();
  // By memory and cell: the touch of rank 0's memory that the next one there has to be like.
  std::vector<uint32_t> expected(ranks * cells, kUnknown);
  std::vector<bool> is_taken(ranks * cells, false);  // by memory and cell of rank 0's
  size_t count = 0;
  bool same = true;
  const auto look = [&](uint32_t at, const Region& region, bool is_write) {
    if (region.rank == 0 || region.empty()) return;
    const CellGrid& grid = grids_[region.buffer];
    if (!grid) {  // rank 0 writes nothing there
      same = same && !is_write;
      return;
    }
    Seen seen{access_of(region.rank, at, is_write), region.buffer, region.rank, nullptr};
    uint32_t* const expected_here = &expected[region.rank * cells + first_cell_[region.buffer]];
    grid.for_each(region, [&](uint32_t number, bool all) {
      uint32_t& next = expected_here[number];
      Region part;
      if (!all) {
        part = part_of(grid.cell(number), region);
        seen.part = &part;
      }
      if (next == kUnknown) {
        next = first_touch(seen, is_taken);
        if (next != kNone) is_taken[region.rank * cells + touches_[next].cell] = true;
      }
      if (next != kNone && is_like(touches_[next], seen)) {
        next = touches_[next].next;
        ++count;
      } else {
        next = kNone;
        same = false;
      }
      seen.part = nullptr;
    });
  };
  for_each_task(draft_, [&](uint32_t at, const InstrRef&, const Instr& instr) {
    if (!same) return;
    for (const Region& region : draft_.plan.reads(instr)) look(at, region, false);
    for (const Region& region : draft_.plan.writes(instr)) look(at, region, true);
  });
  // Each is like another one of rank 0's memory: where they are as many, they are like all of them.
  return same && count == (ranks - 1) * touches_.size();
}

}  // namespace stretto

#include "sync/dependences.h"

#include <algorithm>
#include <span>
#include <utility>

#include "core/counting_sort.h"
#include "sync/alike_touches.h"
#include "sync/cell_grid.h"
#include "sync/implied_reads.h"
#include "sync/program_tasks.h"

namespace stretto {
namespace {

constexpr uint32_t kNone = ~0u;

// An access to a part of a cell, in a list of such.
struct Access {
  uint32_t program, lane;
  uint32_t operand;  // of the plan: the region
  uint32_t next;     // in the list
};

// The lists of all grids.
struct Lists {
  explicit Lists(const Plan& plan) : operands(plan.operands) {}

  // `region`: an operand of the plan.
  uint32_t number_of(const Region& region) const {
    return static_cast<uint32_t>(&region - operands.data());
  }

  std::span<const Region> operands;
  std::vector<Access> accesses;
};

// The accesses so far to one rank's instance of one buffer, cell by cell. A cell has room for one
// write and one read of all of it.
class AccessGrid {
 public:
  AccessGrid() = default;
  explicit AccessGrid(const CellGrid& grid) : grid_(grid), cells_(grid.count()) {}

  // Adds an access of the instruction `program` of `lane`, and calls found(program, lane) for the
  // earlier ones that overlap it, where one of the two writes: maybe several times for one.
  template <typename Found>
  void add(uint32_t program, uint32_t lane, const Region& region, bool is_write, Lists& lists,
           const Found& found) {
    grid_.for_each(region, [&](uint32_t number, bool all) {
      add_to(number, all, program, lane, region, is_write, lists, found);
    });
  }
  // The same of one cell that the region touches; `all`: all of it.
  template <typename Found>
  void add_to(uint32_t number, bool all, uint32_t program, uint32_t lane, const Region& region,
              bool is_write, Lists& lists, const Found& found) {
    Cell& cell = cells_[number];
    look(cell.writes, region, lists, found);
    if (is_write) look(cell.reads, region, lists, found);
    Accesses& own = is_write ? cell.writes : cell.reads;
    if (all && own.program == kNone) {
      own.program = program;
      own.lane = lane;
    } else {
      lists.accesses.push_back({program, lane, lists.number_of(region), own.others});
      own.others = static_cast<uint32_t>(lists.accesses.size() - 1);
    }
  }

 private:
  struct Accesses {
    uint32_t program = kNone, lane = 0;  // to all of the cell; kNone: there is none
    uint32_t others = kNone;             // a list
  };
  struct Cell {
    Accesses writes, reads;
  };

  template <typename Found>
  static void look(const Accesses& earlier, const Region& region, const Lists& lists,
                   const Found& found) {
    if (earlier.program != kNone) found(earlier.program, earlier.lane);
    for (uint32_t i = earlier.others; i != kNone; i = lists.accesses[i].next) {
      const Access& access = lists.accesses[i];
      if (lists.operands[access.operand].overlaps(region)) found(access.program, access.lane);
    }
  }

  CellGrid grid_;
  std::vector<Cell> cells_;
};

// Cells of about the rows of the first write, so that each rank's rows begin with one: who reads or
// writes them from its own on touches its cells as others touch theirs.
int32_t rows_of_cells(const Buffer& buffer, const Region& first_write, int ranks) {
  if (buffer.rows % ranks != 0 || first_write.rows() <= 0) return first_write.rows();
  const int32_t own = buffer.rows / ranks;
  if (first_write.rows() == buffer.rows) return own;
  const int32_t parts = (own + first_write.rows() - 1) / first_write.rows();
  for (int32_t more = parts; more < 2 * parts; ++more) {
    if (own % more == 0) return own / more;
  }
  return first_write.rows();
}

// By buffer; those that no task (of rank 0 alone, if so) writes have none.
std::vector<CellGrid> find_grids(const Draft& draft, const std::vector<TaskOperands>& tasks,
                                 bool rank_0_alone) {
  std::vector<CellGrid> grids(draft.plan.buffers.size());
  for (const TaskOperands& task : tasks) {
    if (rank_0_alone && draft.plan.lanes[task.lane].rank != 0) continue;
    for (Region region : task.writes(draft.plan)) {
      if (region.empty() || grids[region.buffer]) continue;
      const Buffer& buffer = draft.plan.buffers[region.buffer];
      region.row1 = region.row0 + rows_of_cells(buffer, region, draft.plan.ranks());
      grids[region.buffer] = CellGrid(buffer, region);
    }
  }
  return grids;
}

// An object, so that sorting compares in place.
constexpr auto kInOrder = [](const Dependence& a, const Dependence& b) {
  if (a.after != b.after) return a.after < b.after;
  return a.before != b.before ? a.before < b.before : a.buffer < b.buffer;
};

// A region meets another in many cells.
void add_once(std::vector<Dependence>& found, const Dependence& one) {
  if (found.empty() || found.back() != one) found.push_back(one);
}

void sort_out(std::vector<Dependence>& dependences) {
  if (!std::is_sorted(dependences.begin(), dependences.end(), kInOrder)) {
    std::sort(dependences.begin(), dependences.end(), kInOrder);
  }
  dependences.erase(std::unique(dependences.begin(), dependences.end()), dependences.end());
}

// Many, of a program of `count` instructions.
std::vector<Dependence> sorted_out(const std::vector<Dependence>& dependences, size_t count) {
  Sorted<Dependence> by_after(dependences, count, [](const Dependence& d) { return d.after; });
  for (size_t after = 0; after < count; ++after) {
    const std::span<Dependence> of_one = by_after.bucket(after);
    if (of_one.size() > 1) std::sort(of_one.begin(), of_one.end(), kInOrder);
  }
  std::vector<Dependence> sorted = std::move(by_after.all());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  return sorted;
}

// Those on which rank 0's instructions depend; nothing when the other ranks' are not their images.
std::optional<std::vector<Dependence>> find_of_rank_0(const Draft& draft,
                                                      const std::vector<TaskOperands>& tasks,
                                                      const AlikeRanks& alike,
                                                      const ImpliedReads& implied) {
  const Plan& plan = draft.plan;
  const std::vector<CellGrid> grids = find_grids(draft, tasks, true);
  std::vector<AccessGrid> accesses(grids.size());
  for (size_t buffer = 0; buffer < grids.size(); ++buffer) {
    if (grids[buffer]) accesses[buffer] = AccessGrid(grids[buffer]);
  }
  // Ranks are alike, so it suffices to know what meets in one rank's memory.
  AlikeTouches touches(alike, grids);
  Lists lists(plan);
  std::vector<Dependence> found;
  for (const TaskOperands& task : tasks) {
    const int rank = alike.rank_of(task.at);
    const uint32_t home = alike.home(task.at);
    const auto add = [&](const CellGrid& grid, const Region& region, bool is_write) {
      if (region.empty()) return;
      const AlikeTouches::Touch touch = touches.touch(task.at, region, is_write);
      const auto add_to = [&](uint32_t cell, bool all) {
        touch.add(cell, all);
        if (region.rank != 0) return;
        accesses[region.buffer].add_to(
            cell, all, task.at, task.lane, region, is_write, lists,
            [&](uint32_t before, uint32_t lane) {
              if (lane == task.lane) return;
              add_once(found, {alike.seen_by(rank, before), home, region.buffer});
            });
      };
      if (const uint32_t cell = grid.only_cell(region); cell != CellGrid::kNone) {
        add_to(cell, true);
      } else {
        grid.for_each(region, add_to);
      }
    };
    for (const Region& region : task.reads(plan)) {
      const CellGrid& grid = grids[region.buffer];
      if (grid && !implied.has(region)) add(grid, region, false);
    }
    for (const Region& region : task.writes(plan)) {
      if (const CellGrid& grid = grids[region.buffer]) {
        add(grid, region, true);
      } else if (!region.empty()) {
        return std::nullopt;  // rank 0 writes nothing there
      }
    }
  }
  if (!touches.are_those_of_all_ranks()) return std::nullopt;
  return sorted_out(found, draft.program.size());
}

std::vector<Dependence> find_all(const Draft& draft, const std::vector<TaskOperands>& tasks,
                                 const ImpliedReads& implied) {
  const Plan& plan = draft.plan;
  const std::vector<CellGrid> grids = find_grids(draft, tasks, false);
  const auto ranks = static_cast<size_t>(plan.ranks());
  Lists lists(plan);
  std::vector<AccessGrid> accesses(plan.buffers.size() * ranks);
  for (size_t buffer = 0; buffer < grids.size(); ++buffer) {
    for (size_t rank = 0; grids[buffer] && rank < ranks; ++rank) {
      accesses[buffer * ranks + rank] = AccessGrid(grids[buffer]);
    }
  }
  std::vector<Dependence> found;
  std::vector<Dependence> of_one;
  for (const TaskOperands& task : tasks) {
    of_one.clear();
    // An instruction may meet itself: it is of its own lane.
    const auto add = [&](const Region& region, bool is_write) {
      if (region.empty() || !grids[region.buffer]) return;
      AccessGrid& grid = accesses[region.buffer * ranks + region.rank];
      grid.add(task.at, task.lane, region, is_write, lists, [&](uint32_t before, uint32_t lane) {
        if (lane != task.lane) add_once(of_one, {before, task.at, region.buffer});
      });
    };
    for (const Region& region : task.reads(plan)) {
      if (!implied.has(region)) add(region, false);
    }
    for (const Region& region : task.writes(plan)) add(region, true);
    sort_out(of_one);
    found.insert(found.end(), of_one.begin(), of_one.end());
  }
  return found;
}

}  // namespace

Dependences find_dependences(const Draft& draft, bool use_alike) {
  const std::vector<TaskOperands> tasks = operands_of_tasks(draft);
  const ImpliedReads implied(draft, tasks);
  if (use_alike) {
    if (std::optional<AlikeRanks> alike = AlikeRanks::find(draft)) {
      if (auto found = find_of_rank_0(draft, tasks, *alike, implied))
        return {std::move(*found), std::move(alike)};
    }
  }
  return {find_all(draft, tasks, implied), std::nullopt};
}

std::vector<Dependence> of_all_ranks(const Dependences& dependences) {
  if (!dependences.alike) return dependences.all;
  const AlikeRanks& alike = *dependences.alike;
  std::vector<Dependence> all;
  all.reserve(dependences.all.size() * static_cast<size_t>(alike.ranks()));
  for (int rank = 0; rank < alike.ranks(); ++rank) {
    for (const Dependence& d : dependences.all) {
      all.push_back({alike.turned(d.before, rank), alike.turned(d.after, rank), d.buffer});
    }
  }
  return all;
}

}  // namespace stretto

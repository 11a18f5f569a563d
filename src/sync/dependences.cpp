#include "sync/dependences.h"

#include <algorithm>

#include "sync/program_tasks.h"

namespace stretto {
namespace {

constexpr uint32_t kNone = ~0u;

// An access to a part of a cell, in a list of such.
struct Access {
  uint32_t program, lane;
  Region region;
  uint32_t next;  // in the list
};

// The accesses so far to one rank's instance of one buffer, in a grid of cells. Cells have the
// size of the first write, so a typical access takes all of one; a cell has room for one write and
// one read of this kind.
class AccessGrid {
 public:
  AccessGrid() = default;
  AccessGrid(const Buffer& buffer, const Region& first_write)
      : rows_(buffer.rows), cols_(buffer.cols) {
    cell_rows_ = std::max(1, first_write.rows());
    cell_cols_ = std::max(1, first_write.cols());
    while (num_cells() > kMaxCells) {
      cell_rows_ *= 2;
      cell_cols_ *= 2;
    }
    across_ = (cols_ + cell_cols_ - 1) / cell_cols_;
    cells_.resize(static_cast<size_t>(num_cells()));
  }

  // Adds an access of the instruction `program` of `lane`, and calls found(program, lane) for the
  // earlier ones that overlap it, where one of the two writes: maybe several times for one. The
  // lists of all grids are in `lists`.
  template <typename Found>
  void add(uint32_t program, uint32_t lane, const Region& region, bool is_write,
           std::vector<Access>& lists, const Found& found) {
    const int first_row = region.row0 / cell_rows_, first_col = region.col0 / cell_cols_;
    for (int row = first_row; int64_t{row} * cell_rows_ < region.row1; ++row) {
      const int64_t row0 = int64_t{row} * cell_rows_;
      const bool all_rows =
          region.row0 <= row0 && region.row1 >= std::min<int64_t>(row0 + cell_rows_, rows_);
      Cell* cells = &cells_[static_cast<size_t>(row) * static_cast<size_t>(across_)];
      for (int col = first_col; int64_t{col} * cell_cols_ < region.col1; ++col) {
        const int64_t col0 = int64_t{col} * cell_cols_;
        const bool all = all_rows && region.col0 <= col0 &&
                         region.col1 >= std::min<int64_t>(col0 + cell_cols_, cols_);
        Cell& cell = cells[col];
        look(cell.writes, region, lists, found);
        if (is_write) look(cell.reads, region, lists, found);
        Accesses& own = is_write ? cell.writes : cell.reads;
        if (all && own.program == kNone) {
          own.program = program;
          own.lane = lane;
        } else {
          lists.push_back({program, lane, region, own.others});
          own.others = static_cast<uint32_t>(lists.size() - 1);
        }
      }
    }
  }

 private:
  static constexpr int64_t kMaxCells = 1 << 18;
  struct Accesses {
    uint32_t program = kNone, lane = 0;  // to all of the cell; kNone: there is none
    uint32_t others = kNone;             // a list
  };
  struct Cell {
    Accesses writes, reads;
  };

  template <typename Found>
  static void look(const Accesses& earlier, const Region& region, const std::vector<Access>& lists,
                   const Found& found) {
    if (earlier.program != kNone) found(earlier.program, earlier.lane);
    for (uint32_t i = earlier.others; i != kNone; i = lists[i].next) {
      if (lists[i].region.overlaps(region)) found(lists[i].program, lists[i].lane);
    }
  }

  int64_t num_cells() const {
    return int64_t{(rows_ + cell_rows_ - 1) / cell_rows_} * ((cols_ + cell_cols_ - 1) / cell_cols_);
  }

  int32_t rows_ = 0, cols_ = 0;
  int cell_rows_ = 1, cell_cols_ = 1, across_ = 1;
  std::vector<Cell> cells_;
};

// The first write of each buffer; buffers that no task writes need no grid at all.
std::vector<const Region*> first_writes(const Draft& draft) {
  std::vector<const Region*> first(draft.plan.buffers.size(), nullptr);
  for_each_task(draft, [&](uint32_t, const InstrRef&, const Instr& instr) {
    for (const Region& region : draft.plan.writes(instr)) {
      if (!region.empty() && !first[region.buffer]) first[region.buffer] = &region;
    }
  });
  return first;
}

}  // namespace

std::vector<Dependence> find_dependences(const Draft& draft) {
  const Plan& plan = draft.plan;
  const std::vector<const Region*> first = first_writes(draft);
  const auto ranks = static_cast<size_t>(plan.ranks());
  std::vector<Access> lists;
  std::vector<AccessGrid> grids(plan.buffers.size() * ranks);
  for (size_t buffer = 0; buffer < plan.buffers.size(); ++buffer) {
    for (size_t rank = 0; first[buffer] && rank < ranks; ++rank) {
      grids[buffer * ranks + rank] = AccessGrid(plan.buffers[buffer], *first[buffer]);
    }
  }

  std::vector<Dependence> found;
  std::vector<Dependence> of_one;
  for_each_task(draft, [&](uint32_t at, const InstrRef& ref, const Instr& instr) {
    of_one.clear();
    // An instruction may meet itself: it is of its own lane.
    const auto add = [&](const Region& region, bool is_write) {
      if (region.empty() || !first[region.buffer]) return;
      AccessGrid& grid = grids[region.buffer * ranks + region.rank];
      grid.add(at, ref.lane, region, is_write, lists, [&](uint32_t before, uint32_t lane) {
        if (lane != ref.lane) of_one.push_back({before, at, region.buffer});
      });
    };
    for (const Region& region : plan.reads(instr)) add(region, false);
    for (const Region& region : plan.writes(instr)) add(region, true);
    if (of_one.empty()) return;
    std::sort(of_one.begin(), of_one.end(), [](const Dependence& a, const Dependence& b) {
      return a.before != b.before ? a.before < b.before : a.buffer < b.buffer;
    });
    of_one.erase(std::unique(of_one.begin(), of_one.end()), of_one.end());
    found.insert(found.end(), of_one.begin(), of_one.end());
  });
  return found;
}

}  // namespace stretto

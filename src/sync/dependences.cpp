#include "sync/dependences.h"

#include <algorithm>

namespace stretto {
namespace {

constexpr uint32_t kNone = ~0u;

// An access to a cell of a grid, in a list of such.
struct Access {
  uint32_t program, lane;
  Region region;
  bool is_wide = false;   // takes more than one cell
  uint32_t next = kNone;  // in the list
};

// The accesses so far to one rank's instance of one buffer, in a grid of cells. Cells have the
// size of the first write, so a typical access takes one.
class AccessGrid {
 public:
  AccessGrid() = default;
  AccessGrid(const Buffer& buffer, const Region& first_write) {
    cell_rows_ = std::max(1, first_write.rows());
    cell_cols_ = std::max(1, first_write.cols());
    while (num_cells(buffer) > kMaxCells) {
      cell_rows_ *= 2;
      cell_cols_ *= 2;
    }
    across_ = (buffer.cols + cell_cols_ - 1) / cell_cols_;
    cells_.resize(static_cast<size_t>(num_cells(buffer)));
  }

  // Adds an access to `lists`, which all grids share, and calls found(earlier) once for every
  // earlier one that overlaps it, where one of the two writes.
  template <typename Found>
  void add(Access access, bool is_write, std::vector<Access>& lists, const Found& found) {
    const Region& region = access.region;
    const int row0 = region.row0 / cell_rows_, col0 = region.col0 / cell_cols_;
    access.is_wide = region.row1 - row0 * cell_rows_ > cell_rows_ ||
                     region.col1 - col0 * cell_cols_ > cell_cols_;
    if (!access.is_wide) return add_to(row0, col0, access, is_write, lists, found);
    for (int row = row0; int64_t{row} * cell_rows_ < region.row1; ++row) {
      for (int col = col0; int64_t{col} * cell_cols_ < region.col1; ++col) {
        add_to(row, col, access, is_write, lists, found);
      }
    }
  }

 private:
  static constexpr int64_t kMaxCells = 1 << 18;
  struct Cell {
    uint32_t writes = kNone, reads = kNone;
  };

  template <typename Found>
  void add_to(int row, int col, Access& access, bool is_write, std::vector<Access>& lists,
              const Found& found) {
    const Region& region = access.region;
    const auto look = [&](uint32_t list) {
      for (; list != kNone; list = lists[list].next) {
        const Access& other = lists[list];
        if (!other.region.overlaps(region)) continue;
        // Where both take several cells, they may meet in each: count the first one only.
        const bool is_first = !access.is_wide || !other.is_wide ||
                              (std::max(other.region.row0, region.row0) / cell_rows_ == row &&
                               std::max(other.region.col0, region.col0) / cell_cols_ == col);
        if (is_first) found(other);
      }
    };
    Cell& cell =
        cells_[static_cast<size_t>(row) * static_cast<size_t>(across_) + static_cast<size_t>(col)];
    look(cell.writes);
    if (is_write) look(cell.reads);
    uint32_t& list = is_write ? cell.writes : cell.reads;
    access.next = list;
    list = static_cast<uint32_t>(lists.size());
    lists.push_back(access);
  }

  int64_t num_cells(const Buffer& buffer) const {
    return int64_t{(buffer.rows + cell_rows_ - 1) / cell_rows_} *
           ((buffer.cols + cell_cols_ - 1) / cell_cols_);
  }

  int cell_rows_ = 1, cell_cols_ = 1, across_ = 1;
  std::vector<Cell> cells_;
};

// The first write of each buffer; buffers that no task writes need no grid at all.
std::vector<const Region*> first_writes(const Draft& draft) {
  std::vector<const Region*> first(draft.plan.buffers.size(), nullptr);
  for (const InstrRef& ref : draft.program) {
    const Instr& instr = draft.plan.lanes[ref.lane].instrs[ref.pos];
    if (!instr.is_task()) continue;
    for (const Region& region : draft.plan.writes(instr)) {
      if (!region.empty() && !first[region.buffer]) first[region.buffer] = &region;
    }
  }
  return first;
}

}  // namespace

std::vector<Dependence> find_dependences(const Draft& draft) {
  const Plan& plan = draft.plan;
  const std::vector<const Region*> first = first_writes(draft);
  const auto ranks = static_cast<size_t>(plan.ranks());
  std::vector<Access> lists;
  lists.reserve(plan.operands.size());
  std::vector<AccessGrid> grids(plan.buffers.size() * ranks);
  for (size_t buffer = 0; buffer < plan.buffers.size(); ++buffer) {
    for (size_t rank = 0; first[buffer] && rank < ranks; ++rank) {
      grids[buffer * ranks + rank] = AccessGrid(plan.buffers[buffer], *first[buffer]);
    }
  }

  std::vector<Dependence> found;
  std::vector<Dependence> of_one;
  for (uint32_t at = 0; at < draft.program.size(); ++at) {
    const InstrRef ref = draft.program[at];
    const Instr& instr = plan.lanes[ref.lane].instrs[ref.pos];
    if (!instr.is_task()) continue;
    of_one.clear();
    // An instruction may meet itself: it is of its own lane.
    const auto add = [&](const Region& region, bool is_write) {
      if (region.empty() || !first[region.buffer]) return;
      AccessGrid& grid = grids[region.buffer * ranks + region.rank];
      grid.add({at, ref.lane, region}, is_write, lists, [&](const Access& earlier) {
        if (earlier.lane != ref.lane) of_one.push_back({earlier.program, at, region.buffer});
      });
    };
    for (const Region& region : plan.reads(instr)) add(region, false);
    for (const Region& region : plan.writes(instr)) add(region, true);
    if (of_one.empty()) continue;
    std::sort(of_one.begin(), of_one.end(), [](const Dependence& a, const Dependence& b) {
      return a.before != b.before ? a.before < b.before : a.buffer < b.buffer;
    });
    of_one.erase(std::unique(of_one.begin(), of_one.end()), of_one.end());
    found.insert(found.end(), of_one.begin(), of_one.end());
  }
  return found;
}

}  // namespace stretto

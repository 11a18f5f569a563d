#include "sync/dependences.h"

#include <algorithm>

namespace stretto {
namespace {

struct Access {
  uint32_t program = 0;
  Region region;
};

constexpr uint32_t kNone = ~0u;

// Lists of accesses, which share their memory.
class AccessLists {
 public:
  void add(uint32_t& list, const Access& access) {
    links_.push_back({access, list});
    list = static_cast<uint32_t>(links_.size() - 1);
  }
  template <typename Visit>
  void visit(uint32_t list, const Visit& visit) const {
    for (; list != kNone; list = links_[list].next) visit(links_[list].access);
  }

 private:
  struct Link {
    Access access;
    uint32_t next;
  };
  std::vector<Link> links_;
};

// The accesses so far to one rank's instance of one buffer, in a grid of cells. Cells have the
// size of the first write, so a typical access touches one or a few of them.
class AccessGrid {
 public:
  AccessGrid() = default;
  AccessGrid(const Buffer& buffer, const Region& first_write, AccessLists& lists) : lists_(&lists) {
    cell_rows_ = std::max(1, first_write.rows());
    cell_cols_ = std::max(1, first_write.cols());
    while (num_cells(buffer) > kMaxCells) {
      cell_rows_ *= 2;
      cell_cols_ *= 2;
    }
    across_ = (buffer.cols + cell_cols_ - 1) / cell_cols_;
    cells_.resize(static_cast<size_t>(num_cells(buffer)));
  }

  // Calls found(access) once for every earlier access that overlaps `region`.
  template <typename Found>
  void for_each_overlap(const Region& region, bool reads_too, const Found& found) const {
    visit(region, [&](int row, int col) {
      const Cell& cell = cells_[static_cast<size_t>(row * across_ + col)];
      const auto look = [&](const Access& access) {
        // Regions that share several cells meet in each; count the first shared one only.
        if (access.region.overlaps(region) &&
            std::max(access.region.row0, region.row0) / cell_rows_ == row &&
            std::max(access.region.col0, region.col0) / cell_cols_ == col) {
          found(access);
        }
      };
      lists_->visit(cell.writes, look);
      if (reads_too) lists_->visit(cell.reads, look);
    });
  }

  void add(const Access& access, bool is_write) {
    visit(access.region, [&](int row, int col) {
      Cell& cell = cells_[static_cast<size_t>(row * across_ + col)];
      lists_->add(is_write ? cell.writes : cell.reads, access);
    });
  }

 private:
  static constexpr int64_t kMaxCells = 1 << 18;
  struct Cell {
    uint32_t writes = kNone, reads = kNone;
  };

  int64_t num_cells(const Buffer& buffer) const {
    return int64_t{(buffer.rows + cell_rows_ - 1) / cell_rows_} *
           ((buffer.cols + cell_cols_ - 1) / cell_cols_);
  }
  template <typename Visit>
  void visit(const Region& region, const Visit& visit_cell) const {
    for (int row = region.row0 / cell_rows_; int64_t{row} * cell_rows_ < region.row1; ++row) {
      for (int col = region.col0 / cell_cols_; int64_t{col} * cell_cols_ < region.col1; ++col) {
        visit_cell(row, col);
      }
    }
  }

  AccessLists* lists_ = nullptr;
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
  AccessLists lists;
  std::vector<AccessGrid> grids(plan.buffers.size() * ranks);
  for (size_t buffer = 0; buffer < plan.buffers.size(); ++buffer) {
    for (size_t rank = 0; first[buffer] && rank < ranks; ++rank) {
      grids[buffer * ranks + rank] = AccessGrid(plan.buffers[buffer], *first[buffer], lists);
    }
  }

  std::vector<Dependence> found;
  std::vector<Dependence> of_one;
  for (uint32_t at = 0; at < draft.program.size(); ++at) {
    const InstrRef ref = draft.program[at];
    const Instr& instr = plan.lanes[ref.lane].instrs[ref.pos];
    if (!instr.is_task()) continue;
    of_one.clear();
    auto look = [&](const Region& region, bool is_write) {
      if (region.empty() || !first[region.buffer]) return;
      const AccessGrid& grid = grids[region.buffer * ranks + region.rank];
      grid.for_each_overlap(region, is_write, [&](const Access& access) {
        if (draft.program[access.program].lane != ref.lane) {
          of_one.push_back({access.program, at, region.buffer});
        }
      });
    };
    for (const Region& region : plan.reads(instr)) look(region, false);
    for (const Region& region : plan.writes(instr)) look(region, true);
    std::sort(of_one.begin(), of_one.end(), [](const Dependence& a, const Dependence& b) {
      return a.before != b.before ? a.before < b.before : a.buffer < b.buffer;
    });
    of_one.erase(std::unique(of_one.begin(), of_one.end()), of_one.end());
    found.insert(found.end(), of_one.begin(), of_one.end());

    auto add = [&](const Region& region, bool is_write) {
      if (region.empty() || !first[region.buffer]) return;
      grids[region.buffer * ranks + region.rank].add({at, region}, is_write);
    };
    for (const Region& region : plan.reads(instr)) add(region, false);
    for (const Region& region : plan.writes(instr)) add(region, true);
  }
  return found;
}

}  // namespace stretto

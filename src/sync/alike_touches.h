// Whether ranks that are alike in their lanes are so in what they touch.
#pragma once

#include <span>
#include <vector>

#include "stretto/plan.h"
#include "sync/alike_ranks.h"
#include "sync/cell_grid.h"
#include "sync/program_tasks.h"

namespace stretto {

// The touches of cells in rank 0's memory, by the instructions of all ranks. Every other memory has
// to have the same: there is a cell for each, which the images of its instructions touch in the
// same order. Then what depends on what is the same too.
class AlikeTouches {
 public:
  AlikeTouches(const Plan& plan, const AlikeRanks& alike, std::span<const CellGrid> grids);

  // A touch of rank 0's memory; to be told in the order of the program.
  void add(uint32_t at, const Region& region, bool is_write);
  // Once all are told, of these tasks.
  bool are_those_of_all_ranks(std::span<const TaskOperands> tasks) const;

 private:
  static constexpr uint32_t kNone = UINT32_MAX, kUnknown = UINT32_MAX - 1;
  // An access as rank 0 sees it: AlikeRanks::number_seen_by(), and whether it writes.
  using Access = uint32_t;
  struct Touch {
    Access access;
    uint32_t part;  // in parts_; kNone: all of the cell
    uint32_t cell;
    uint32_t next;  // of this cell
    uint16_t buffer;
    bool is_first;  // of its cell
  };
  // One that is looked for; of a part, when there is one, counted from the corner of its cell.
  struct Seen {
    Access access;
    uint16_t buffer, memory;
    const Region* part;
  };

  Access access_of(int memory, uint32_t at, bool is_write) const {
    return alike_.number_seen_by(memory, at) * 2 + (is_write ? 1 : 0);
  }
  bool is_like(const Touch& own, const Seen& seen) const {
    if (own.access != seen.access) return false;
    if (own.part == kNone || seen.part == nullptr) return own.part == kNone && !seen.part;
    return parts_[own.part] == *seen.part;
  }
  // The first touch of a cell to which none of this memory is known to belong, for one of which
  // none is known; kNone when there is none.
  uint32_t first_touch(const Seen& seen, const std::vector<bool>& is_taken) const;

  const Plan& plan_;
  const AlikeRanks& alike_;
  std::span<const CellGrid> grids_;   // by buffer
  std::vector<uint32_t> first_cell_;  // by buffer; at the end, how many there are
  std::vector<Touch> touches_;
  std::vector<Region> parts_;             // counted from the corner of the cell
  std::vector<uint32_t> last_of_cell_;    // touch
  std::vector<uint32_t> first_of_instr_;  // by number: its first touch, or kNone
};

}  // namespace stretto

// What a reduce adds to of the tile that the task before it in its lane has computed: the one place
// that says so, for the simulation and for GPUs.
#pragma once

#include <algorithm>
#include <optional>

#include "plan/placed.h"

namespace stretto {

// A tile is added to at most so many sums, itself among them, where it is computed: a GPU's kernel
// counts no more. Lowering leaves the sums of more ranks to lanes that have no tiles any more.
inline constexpr int kMostSumsInTile = 16;

struct AddedPart {
  uint32_t write = 0;  // of the task
  int32_t row = 0;     // of the tile, the part's first
  bool is_all = true;  // of the tile
};

// The task writes its tile once, whole or in parts by rows. Nothing where it writes rows of it
// twice, or where the reduce reads none of what it writes to its own rank, or too many sums.
inline std::optional<AddedPart> added_part(const Plan& plan, int rank, const Instr& task,
                                           const Instr& reduce) {
  const std::span<const Region> writes = plan.writes(task), added = plan.reads(reduce);
  if (added.size() > kMostSumsInTile) return std::nullopt;
  int64_t rows = 0;
  for (const Region& write : writes) rows += write.rows();
  if (rows != rows_of_task(plan, task)) return std::nullopt;
  std::optional<AddedPart> found;
  uint32_t number = 0;
  for_each_placed_write(plan, task, [&](const Region& write, int32_t row) {
    const bool adds =
        write.rank == rank && std::find(added.begin(), added.end(), write) != added.end();
    if (adds && !found) found = AddedPart{number, row, writes.size() == 1};
    ++number;
  });
  return found;
}

}  // namespace stretto

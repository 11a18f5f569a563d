#include "sim/mover_kernels.h"

#include <algorithm>

#include "plan/tile_rows.h"
#include "plan/tile_task.h"

namespace stretto::sim {
namespace {

// A compute lane's instructions between two boundaries.
struct Stretch {
  uint32_t lane, end_of_tiles;
  bool has_tiles, moves;
  uint32_t end;
};

Stretch stretch_of(const Plan& plan, uint32_t lane, uint32_t begin, uint32_t end) {
  Stretch stretch{lane, begin, false, false, end};
  InGemm tasks;
  bool is_of_tile = false;  // the task before
  const std::vector<Instr>& instrs = plan.lanes[lane].instrs;
  for (uint32_t at = begin; at < end; ++at) {
    const Instr& instr = instrs[at];
    if (instr.op == Opcode::notify && is_of_tile && stretch.end_of_tiles == at) {
      stretch.end_of_tiles = at + 1;
    }
    if (!instr.is_task()) continue;
    is_of_tile = tasks.pass(instr);
    if (is_of_tile) stretch.end_of_tiles = at + 1;
    stretch.has_tiles = stretch.has_tiles || is_of_tile;
    stretch.moves = !is_of_tile;
  }
  return stretch;
}

}  // namespace

MoverKernels::MoverKernels(const Plan& plan) : ends_(plan.lanes.size()) {
  if (plan.library_gemms) return;
  for (uint32_t first = 0, next = 0; first < plan.lanes.size(); first = next) {
    const uint16_t rank = plan.lanes[first].rank;
    std::vector<std::vector<Stretch>> stretches;
    for (next = first; next < plan.lanes.size() && plan.lanes[next].rank == rank; ++next) {
      if (plan.lanes[next].kind != LaneKind::compute) continue;
      const std::vector<Instr>& instrs = plan.lanes[next].instrs;
      uint32_t begin = 0;
      for (size_t number = 0; begin <= instrs.size(); ++number) {
        uint32_t end = begin;
        while (end < instrs.size() && instrs[end].op != Opcode::boundary) ++end;
        if (stretches.size() <= number) stretches.resize(number + 1);
        stretches[number].push_back(stretch_of(plan, next, begin, end));
        begin = end + 1;
      }
    }
    for (size_t number = 0; number < stretches.size(); ++number) {
      if (plan.library_at(number)) continue;
      const std::vector<Stretch>& together = stretches[number];
      const auto has = [&](bool Stretch::*what) {
        return std::any_of(together.begin(), together.end(),
                           [&](const Stretch& stretch) { return stretch.*what; });
      };
      if (!has(&Stretch::has_tiles) || !has(&Stretch::moves)) continue;
      const bool by_tiles =
          std::all_of(together.begin(), together.end(), [&](const Stretch& stretch) {
            return (stretch.has_tiles || !stretch.moves) &&
                   are_rows_of_tiles(plan, plan.lanes[stretch.lane], stretch.end_of_tiles,
                                     stretch.end);
          });
      if (by_tiles) continue;
      any_ = true;
      for (const Stretch& stretch : together) ends_[stretch.lane].push_back(stretch.end_of_tiles);
    }
  }
}

}  // namespace stretto::sim

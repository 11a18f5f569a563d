#include "plan/tile_rows.h"

#include <algorithm>
#include <span>

#include "plan/normed_rows.h"
#include "plan/tile_task.h"

namespace stretto {
namespace {

// In 16 bits, whole vectors of 16 bytes, here.
bool is_fit(const Plan& plan, const Lane& lane, const Region& region) {
  const Buffer& buffer = plan.buffers[region.buffer];
  return buffer.dtype == plan.op.dtype && num_bytes(buffer.dtype) == 2 &&
         region.rank == lane.rank && region.cols() % 8 == 0 && region.col0 % 8 == 0 &&
         buffer.cols % 8 == 0;
}

}  // namespace

bool are_rows_of_tiles(const Plan& plan, const Lane& lane, uint32_t begin, uint32_t end) {
  const auto all_fit = [&](std::span<const Region> regions) {
    return std::all_of(regions.begin(), regions.end(),
                       [&](const Region& region) { return is_fit(plan, lane, region); });
  };
  const auto fits = [&](const Instr& instr) {
    return all_fit(plan.reads(instr)) && all_fit(plan.writes(instr));
  };
  for (uint32_t at = begin; at < end; ++at) {
    const Instr& instr = lane.instrs[at];
    if (instr.op == Opcode::wait || instr.op == Opcode::deliver) continue;
    if (!instr.is_task()) return false;
    const NormedRows rows = rows_normed_at(lane, at);
    if (rows.norm == nullptr || !fits(*rows.norm)) return false;
    if (rows.sum == nullptr) continue;
    if (reads_tiles(rows.sum->op) || !fits(*rows.sum)) return false;
    ++at;
  }
  return true;
}

}  // namespace stretto

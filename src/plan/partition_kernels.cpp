#include "plan/partition_kernels.h"

#include <algorithm>

#include "stretto/device/partition_by_blocks.h"

namespace stretto {

int partition_blocks(const Plan& plan, const Lane& lane, uint32_t begin, uint32_t end) {
  int most = 0;
  if (lane.kind != LaneKind::compute) return 0;
  for (uint32_t at = begin; at < end; ++at) {
    const Instr& instr = lane.instrs[at];
    if (instr.op != Opcode::route) return 0;
    const int64_t choices = plan.reads(instr)[0].elements();
    if (choices > INT32_MAX) return 0;
    const int blocks =
        device::partition_blocks(static_cast<int32_t>(choices), plan.writes(instr)[3].rows() - 1);
    if (blocks == 0) return 0;
    most = std::max(most, blocks);
  }
  return most;
}

}  // namespace stretto

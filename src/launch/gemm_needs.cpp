#include "launch/gemm_needs.h"

#include <algorithm>
#include <vector>

#include "launch/tile_sums.h"
#include "stretto/device/gemm_task.h"

namespace stretto::cuda {

GemmNeeds find_needs(const Plan& plan, const TileSums& sums) {
  GemmNeeds needs;
  std::vector<uint8_t> is_stored_to(plan.buffers.size(), false);
  for (uint32_t lane = 0; lane < plan.lanes.size(); ++lane) {
    const std::vector<Instr>& instrs = plan.lanes[lane].instrs;
    for (uint32_t at = 0; at < instrs.size(); ++at) {
      const Instr& instr = instrs[at];
      if (instr.op != Opcode::gemm) continue;
      const Region* reads = plan.operands.data() + instr.first_operand;
      int32_t rows = 0;
      for (const Region* a = reads; a + 1 < reads + instr.num_reads; ++a) rows += a->rows();
      needs.rows = std::max(needs.rows, rows);
      needs.columns = std::max(needs.columns, reads[instr.num_reads - 1].rows());
      const auto store = [&](const Region& to, int32_t row) {
        is_stored_to[to.buffer] = true;
        if (row == 0 || needs.parts) return;
        for_each_row_part(plan, instr, [&](const RowPart& part) {
          const bool begins_here = row > part.first && row < part.last;
          needs.parts =
              needs.parts || (begins_here && (row - part.first) % device::kChunkRows != 0);
        });
      };
      sums.for_each_store(plan, lane, at, store);
      if (const TileSum sum = sums.of(lane, at); sum.stores_before()) {
        sums.for_each_store_of_part(plan, instrs[sum.of_ranks], sum, store);
      }
    }
  }
  bool differ = false;
  for (size_t i = 0; i < is_stored_to.size(); ++i) {
    if (!is_stored_to[i]) continue;
    differ = differ || (needs.stored && *needs.stored != plan.buffers[i].dtype);
    needs.stored = plan.buffers[i].dtype;
  }
  if (differ) needs.stored.reset();
  return needs;
}

}  // namespace stretto::cuda

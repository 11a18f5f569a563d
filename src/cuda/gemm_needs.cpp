#include "cuda/gemm_needs.h"

#include <algorithm>
#include <vector>

#include "cuda/tile_sums.h"
#include "plan/placed.h"

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
      const Instr* stored = sums.stored_by(plan, lane, at);
      if (stored == nullptr) continue;
      for (const Region& to : plan.writes(*stored)) is_stored_to[to.buffer] = true;
      if (stored->num_writes == 1) continue;
      for_each_placed_write(plan, *stored, [&](const Region&, int32_t row) {
        if (row == 0) return;
        for_each_row_part(plan, instr, [&](const RowPart& part) {
          needs.parts = needs.parts || (row > part.first && row < part.last);
        });
      });
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

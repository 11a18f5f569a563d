#include "launch/lane_pairs.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "launch/rank_program.h"

namespace stretto::cuda {
namespace {

// Every reduce is of ranges of K that its tile's task has in its registers.
bool adds_in_registers(const Plan& plan, const TileSums& sums, uint32_t index) {
  const std::vector<Instr>& instrs = plan.lanes[index].instrs;
  for (uint32_t at = 0; at < instrs.size(); ++at) {
    if (is_sum(instrs[at].op) && !instrs[at].fused) return false;
    if (instrs[at].op == Opcode::gemm && sums.of(index, at).reads_memory()) return false;
  }
  return true;
}

// Nothing but the compute lanes' tiles, beside comm lanes that are blocks of the same kernel.
bool is_one_kernel(const RankProgram& program) {
  return program.streams.size() == 1 && program.streams[0].steps.size() == 1 &&
         program.streams[0].steps[0].kind == StepKind::gemm &&
         program.moves.size() == (program.joins() ? 1 : 0);
}

}  // namespace

std::string why_no_pairs(const Plan& plan, const TileSums& sums) {
  if (plan.cluster == 1) return "";
  bool in_registers = !sums.any_ranges_kept();
  for (uint32_t l = 0; l < plan.lanes.size() && in_registers; ++l) {
    in_registers = plan.lanes[l].kind != LaneKind::compute || adds_in_registers(plan, sums, l);
  }
  if (!in_registers) {
    return "lanes of a cluster add nothing but ranges of K that they have computed one after the "
           "other";
  }
  // Not owned: it ends with this call.
  const std::shared_ptr<const TileSums> shared(std::shared_ptr<const TileSums>(), &sums);
  const std::vector<RankProgram> programs = programs_of(plan, shared);
  if (!std::all_of(programs.begin(), programs.end(), is_one_kernel)) {
    return "all of a rank's work in a plan with clusters is one kernel: compute lanes begin with a "
           "gemm or its waits, and all ranks have comm lanes that copy multiples of 16 bytes, or "
           "none has";
  }
  return "";
}

}  // namespace stretto::cuda

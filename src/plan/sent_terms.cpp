#include "plan/sent_terms.h"

#include "op/few_rows_tiles.h"
#include "stretto/collective_form.h"

namespace stretto {

std::vector<double> times_sent(const Plan& plan) {
  std::vector<double> times(plan.buffers.size(), 0);
  for (const Lane& lane : plan.lanes) {
    for (const Instr& instr : lane.instrs) {
      if (instr.op != Opcode::collective || instr.num_reads == 0) continue;
      const CollectiveForm form = form_of(instr.collective);
      if (!form.adds || form.goes_by_ids()) continue;
      times[plan.reads(instr)[0].buffer] = times_sent(plan.ranks(), form.groups_reads);
    }
  }
  return times;
}

}  // namespace stretto

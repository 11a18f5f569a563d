#include "run/fence.h"

namespace stretto::runtime {

Plan fence_plan(const Operator& op, int sms) {
  Plan plan;
  plan.op = op;
  plan.schedule = "fence";
  plan.sms = sms;
  plan.signals = {{"fence", 1, 1}};
  for (int rank = 0; rank < op.ranks; ++rank) {
    Lane& lane = plan.lanes.emplace_back();
    lane.kind = LaneKind::comm;
    lane.rank = static_cast<uint16_t>(rank);
    for (int i = 0; i < op.ranks; ++i) {
      Instr notify;
      notify.op = Opcode::notify;
      notify.rank = static_cast<uint16_t>((rank + i) % op.ranks);
      notify.amount = 1;
      lane.instrs.push_back(notify);
    }
    Instr wait;
    wait.op = Opcode::wait;
    wait.amount = op.ranks;
    lane.instrs.push_back(wait);
  }
  return plan;
}

}  // namespace stretto::runtime

#include "sim/trailing_copies.h"

#include <algorithm>

namespace stretto::sim {

TrailingCopies::TrailingCopies(const Plan& plan, const Costs& costs) : lanes_(plan.lanes.size()) {
  for (size_t l = 0; l < plan.lanes.size(); ++l) {
    const Lane& lane = plan.lanes[l];
    if (lane.kind != LaneKind::comm) continue;
    uint32_t first = 0;
    double read = 0, sent = 0;
    for (uint32_t pos = 0; pos < lane.instrs.size(); ++pos) {
      const Instr& instr = lane.instrs[pos];
      if (instr.op == Opcode::notify) continue;
      if (!only_moves(instr)) {
        first = pos + 1;
        continue;
      }
      const double own_read = costs.bytes_read(instr);
      if (own_read <= 0) continue;
      const double own_sent = costs.bytes_sent(instr, lane.rank);
      lanes_[l].push_back({pos, first, read, sent, own_read, own_sent});
      read += own_read;
      sent += own_sent;
    }
  }
}

double TrailingCopies::sent_behind(uint32_t lane, uint32_t pos, double most) const {
  const std::vector<Copy>& copies = lanes_[lane];
  const auto begin = std::partition_point(copies.begin(), copies.end(),
                                          [&](const Copy& copy) { return copy.pos < pos; });
  const auto end = std::partition_point(begin, copies.end(), [&](const Copy& copy) {
    return copy.first <= pos && copy.read - begin->read < most;
  });
  if (begin == end) return 0;
  const Copy& last = *(end - 1);
  const double left = most - (last.read - begin->read);
  return last.sent - begin->sent + last.own_sent * std::min(1.0, left / last.own_read);
}

}  // namespace stretto::sim

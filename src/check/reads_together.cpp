#include "check/reads_together.h"

#include <algorithm>

namespace stretto::checker {

ReadsTogether::ReadsTogether(const Plan& plan, const Execution& execution,
                             std::span<const Access> accesses, std::span<const uint32_t> reads)
    : execution_(execution), rank_(plan.lanes[accesses[reads.front()].lane].rank) {
  uint32_t task = ~accesses[reads.front()].instr;
  for (const uint32_t read : reads) {
    const Access& access = accesses[read];
    if (plan.lanes[access.lane].rank != rank_) rank_.reset();
    if (access.instr == task) continue;
    task = access.instr;
    ++num_tasks_;
    const Event end = execution.event(access.lane, access.instr, 0);
    auto last = find(ends_, access.lane);
    if (last == ends_.end() || last->lane != access.lane) {
      begins_.push_back(execution.begin(access.lane, access.instr, access.op, 0));
      last = ends_.insert(last, {access.lane, end.seq});
    }
    last->seq = end.seq;  // a lane's come in its order
  }
}

ReadsTogether::Marks::iterator ReadsTogether::find(Marks& marks, uint32_t lane) {
  return std::lower_bound(marks.begin(), marks.end(), lane,
                          [](const Mark& mark, uint32_t want) { return mark.lane < want; });
}

bool ReadsTogether::are_after(Event write) {
  auto known = find(known_, write.lane);
  if (known == known_.end() || known->lane != write.lane) {
    uint32_t least = UINT32_MAX;
    for (const Event& begin : begins_) {
      least = std::min(least, execution_.clocks().last_known(write.lane, begin));
    }
    known = known_.insert(known, {write.lane, least});
  }
  return write.seq <= known->seq;
}

bool ReadsTogether::are_before(Event write) const {
  return std::all_of(ends_.begin(), ends_.end(), [&](const Mark& end) {
    return execution_.clocks().precedes({end.lane, end.seq}, write);
  });
}

}  // namespace stretto::checker

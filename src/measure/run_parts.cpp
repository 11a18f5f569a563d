#include "measure/run_parts.h"

#include <algorithm>
#include <map>

#include "measure/measured_timeline.h"

namespace stretto::runtime {
namespace {

// Adds one lane's; it has at least one mark.
void add_lane(const Plan& plan, const std::vector<const Span*>& spans, double end_us,
              RunParts& sum) {
  double waiting = 0, multiplying = 0, adding = 0, last = 0;
  for (const Span* span : spans) {
    const double time = span->end_us - span->start_us;
    const Instr& instr = plan.lanes[span->where.lane].instrs[span->where.pos];
    const TaskKind* const kind = instr.kind();
    if (instr.op == Opcode::wait) {
      waiting += time;
    } else if (kind != nullptr && kind->worker == Worker::gemm_kernel) {
      multiplying += time;
    } else if (kind != nullptr && kind->worker == Worker::mover_kernel) {
      adding += time;
    } else {
      continue;  // notifies: of the rest, or of the end
    }
    last = std::max(last, span->end_us);
  }
  sum.waiting_us += waiting;
  sum.multiplying_us += multiplying;
  sum.adding_us += adding;
  sum.ending_us += end_us - last;
  sum.rest_us += last - waiting - multiplying - adding;
}

}  // namespace

RunParts parts_of_run(const Plan& plan, const std::vector<std::vector<KernelMarks>>& by_rank) {
  RunParts sum;
  int lanes = 0;
  for (const std::vector<KernelMarks>& kernels : by_rank) {
    const Timeline timeline = measured_timeline(plan, {kernels});
    std::map<uint32_t, std::vector<const Span*>> by_lane;
    for (const MarkedLane& lane : marked_lanes(kernels)) {
      if (plan.lanes[lane.lane].kind == LaneKind::compute) by_lane[lane.lane];
    }
    for (const Span& span : timeline.spans) {
      const auto found = by_lane.find(span.where.lane);
      if (found != by_lane.end()) found->second.push_back(&span);
    }
    for (const auto& [lane, spans] : by_lane) add_lane(plan, spans, timeline.total_us, sum);
    lanes += static_cast<int>(by_lane.size());
  }
  if (lanes == 0) return sum;
  for (double* part :
       {&sum.waiting_us, &sum.multiplying_us, &sum.adding_us, &sum.ending_us, &sum.rest_us}) {
    *part /= lanes;
  }
  return sum;
}

}  // namespace stretto::runtime

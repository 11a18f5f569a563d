#include "streams/collective_launches.h"

#include <algorithm>

#include "plan/kernel_calls.h"
#include "streams/nccl_lane.h"
#include "stretto/error.h"
#include "stretto/serve.h"
#include "tables/call_lists.h"

namespace stretto::runtime {

using cuda::LowLatencyCall;
using cuda::Stream;

void CollectiveLaunches::add(const cuda::Step& step) {
  const Instr& instr = step.instr(setup_.plan);
  const bool is_nccls = !is_by_language(setup_.plan, instr);
  STRETTO_ASSERT(is_nccls ? setup_.communicators != nullptr : setup_.low_latency != nullptr,
                 "collectives come with who makes them");
  Collective& made = all_.emplace_back();
  made.id = instr.id;
  for (int set = 0; set < setup_.sets; ++set) {
    if (is_nccls) {
      made.nccl.push_back(
          cuda::nccl_calls(setup_.plan, step.lane, step.position, setup_.places, set));
    } else {
      made.low_latency.push_back(
          cuda::low_latency_call(setup_.plan, step.lane, step.position, setup_.places, set));
    }
  }
}

void CollectiveLaunches::add_route(const cuda::Step& step) {
  STRETTO_ASSERT(!all_.empty() && !all_.back().low_latency.empty(),
                 "a partition comes with what a kernel brings");
  std::vector<LowLatencyCall>& by_set = all_.back().low_latency;
  for (int set = 0; set < setup_.sets; ++set) {
    by_set[static_cast<size_t>(set)].routed =
        cuda::routed_call(setup_.plan, step.instr(setup_.plan), setup_.places, set);
  }
}

bool CollectiveLaunches::alternates() const {
  const auto differ = [](const auto& by_set) {
    return std::any_of(by_set.begin(), by_set.end(),
                       [&](const auto& of_set) { return of_set != by_set.front(); });
  };
  return std::any_of(all_.begin(), all_.end(), [&](const Collective& one) {
    return differ(one.nccl) || differ(one.low_latency);
  });
}

LowLatencyCall CollectiveLaunches::call(uint32_t number, int set, const RowsOfCall& rows,
                                        cuda::CallPlaces places) const {
  LowLatencyCall call = all_[number].low_latency[static_cast<size_t>(set)];
  const int64_t all = setup_.plan.op.rows();
  if (rows.at != 0) {
    const device::RunRows most = run_rows(setup_.plan.op, rows.rows != 0 ? rows.rows : all);
    call = cuda::with_rows_at(call, rows.at, most, all);
  } else if (rows.rows != 0) {
    call = cuda::with_rows(call, run_rows(setup_.plan.op, rows.rows), all);
  }
  return cuda::at_call(call, places);
}

device::RowTargets CollectiveLaunches::targets(uint32_t number, int set, const RowsOfCall& rows,
                                               cuda::CallPlaces places) const {
  return setup_.low_latency->targets(all_[number].id, setup_.rank, call(number, set, rows, places));
}

void CollectiveLaunches::launch(uint32_t number, const Stream& stream, const LowLatencyCall& call,
                                bool starts_early) const {
  setup_.low_latency->launch(all_[number].id, setup_.rank, stream, call, starts_early);
}

void CollectiveLaunches::make(uint32_t number, const Stream& stream, int set,
                              cuda::CallPlaces places) const {
  std::vector<cuda::NcclCall> calls = all_[number].nccl[static_cast<size_t>(set)];
  for (cuda::NcclCall& call : calls) call = cuda::at_call(call, places);
  make_calls(*setup_.communicators, setup_.rank, stream, calls);
}

}  // namespace stretto::runtime

// Waits of a rank that do not end: where they stand in the plan, and how streams get past them.
#include <algorithm>

#include "runtime/rank_streams.h"

namespace stretto::runtime {

using cuda::check;
using cuda::driver;
using cuda::Step;

StuckWait RankStreams::locate(const device::WaitError& error) const {
  StuckWait stuck;
  stuck.rank = setup_.rank;
  if (error.kernel >= places_of_kernels_.size()) return stuck;
  const KernelPlace& place = places_of_kernels_[error.kernel];
  const SignalRef signal = setup_.signals.ref_of(setup_.plan, error.signal);
  if (place.parts == nullptr) {
    for (const Step& step : place.steps) {
      if (step.instr(setup_.plan).signal != signal) continue;
      stuck.lane = step.lane;
      stuck.position = step.position;
      break;
    }
  } else {
    const uint32_t block = error.lane & ~device::kMoverLane;
    if (block >= place.parts->size()) return stuck;
    const WaitPlace wait = find_wait(setup_.plan, (*place.parts)[block], signal, error.tile);
    stuck.lane = wait.lane;
    stuck.position = wait.position;
  }
  const Instr& instr = setup_.plan.lanes[stuck.lane].instrs[stuck.position];
  stuck.expected = instr.amount;
  stuck.seen = instr.amount - static_cast<int64_t>(error.expected - error.seen);
  stuck.known = instr.op == Opcode::wait;
  return stuck;
}

std::vector<StuckWait> RankStreams::stuck_stream_waits() const {
  std::vector<StuckWait> stuck;
  for (const ValueWait& wait : value_waits_) {
    const bool lane_is_stuck = std::any_of(
        stuck.begin(), stuck.end(), [&](const StuckWait& s) { return s.lane == wait.step.lane; });
    if (lane_is_stuck) continue;
    int64_t seen = 0;
    cuda::copy_from_gpu(&seen, wait.counter, sizeof(seen));
    if (seen >= wait.threshold) continue;
    const int64_t amount = wait.step.instr(setup_.plan).amount;
    stuck.push_back({setup_.rank, wait.step.lane, wait.step.position, amount,
                     amount - (wait.threshold - seen), true});
  }
  return stuck;
}

void RankStreams::release_stream_waits() const {
  constexpr int64_t kBeyondAll = int64_t{1} << 60;
  for (const ValueWait& wait : value_waits_) {
    cuda::copy_to_gpu(wait.counter, &kBeyondAll, sizeof(kBeyondAll));
  }
}

}  // namespace stretto::runtime

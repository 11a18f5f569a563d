// Waits of a rank that do not end: where they stand in the plan, and how streams get past them.
#include <algorithm>

#include "run/rank_streams.h"

namespace stretto::runtime {

using cuda::check;
using cuda::driver;

StuckWait RankStreams::locate(const device::WaitError& error) const {
  if (error.kernel >= places_of_kernels_.size()) return {.rank = setup_.rank};
  return runtime::locate(setup_.plan, setup_.rank, places_of_kernels_[error.kernel],
                         setup_.signals.ref_of(setup_.plan, error.signal), error);
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

std::vector<StuckWait> RankStreams::let_go_waits() const {
  if (waits_.empty()) return {};
  std::vector<device::LetGo> left(let_go_.num_bytes() / sizeof(device::LetGo));
  cuda::copy_from_gpu(left.data(), let_go_.address(), let_go_.num_bytes());
  std::vector<LeftWait> waits;
  for (const std::vector<cuda::Step>& of_kernel : waits_of_) {
    for (const cuda::Step& step : of_kernel) waits.push_back({step, left[waits.size()]});
  }
  return stood_still(setup_.plan, setup_.rank, waits);
}

void RankStreams::release_stream_waits() const {
  constexpr int64_t kBeyondAll = int64_t{1} << 60;
  for (const ValueWait& wait : value_waits_) {
    cuda::copy_to_gpu(wait.counter, &kBeyondAll, sizeof(kBeyondAll));
  }
}

}  // namespace stretto::runtime

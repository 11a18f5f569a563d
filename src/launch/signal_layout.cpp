#include "launch/signal_layout.h"

#include <fmt/format.h>

namespace stretto::cuda {

SignalLayout::SignalLayout(const Plan& plan, const std::vector<RankProgram>& programs,
                           bool stream_waits) {
  for (const SignalArray& array : plan.signals) {
    first_.push_back(num_signals_);
    num_signals_ += static_cast<uint32_t>(array.count) * array.copies;
  }
  per_run_.assign(static_cast<size_t>(plan.ranks()), std::vector<uint64_t>(num_signals_, 0));
  relative_.assign(static_cast<size_t>(plan.ranks()), std::vector<bool>(num_signals_, false));
  for (const Lane& lane : plan.lanes) {
    for (const Instr& instr : lane.instrs) {
      if (instr.op != Opcode::notify) continue;
      per_run_[instr.rank][index_of(instr.signal)] += static_cast<uint64_t>(instr.amount);
    }
  }
  if (!stream_waits) return;
  for (size_t rank = 0; rank < programs.size(); ++rank) {
    for (const StepStream& stream : programs[rank].streams) {
      // Where the GEMM kernels run one after the other, a kernel that waits finds an SM.
      if (stream.kind == LaneKind::compute) continue;
      for (const Step& step : stream.steps) {
        if (step.kind != StepKind::wait) continue;
        const SignalRef& signal = step.instr(plan).signal;
        if (plan.signals[signal.array].copies == 1) relative_[rank][index_of(signal)] = true;
      }
    }
  }
}

int64_t SignalLayout::relative_threshold(int rank, const Instr& wait) const {
  return wait.amount - wait.lag * static_cast<int64_t>(per_run(rank, index_of(wait.signal)));
}

device::WaitEntry SignalLayout::wait_entry(const Plan& plan, int rank, const Instr& wait) const {
  const SignalArray& array = plan.signals[wait.signal.array];
  const uint32_t signal = index_of(wait.signal);
  if (is_relative(rank, signal)) {
    return {static_cast<uint64_t>(relative_threshold(rank, wait)), 0, signal, 0, 1, 0, 0};
  }
  return {static_cast<uint64_t>(wait.amount),
          per_run(rank, signal),
          signal,
          static_cast<uint32_t>(array.count),
          array.copies,
          wait.lag,
          0};
}

device::NotifyEntry SignalLayout::notify_entry(const Plan& plan, const Instr& notify) const {
  const SignalArray& array = plan.signals[notify.signal.array];
  return {static_cast<uint64_t>(notify.amount),
          index_of(notify.signal),
          static_cast<uint32_t>(array.count),
          array.copies,
          notify.rank,
          0};
}

SignalRef SignalLayout::ref_of(const Plan& plan, uint32_t signal) const {
  for (size_t i = plan.signals.size(); i-- > 0;) {
    if (signal < first_[i] || plan.signals[i].count == 0) continue;
    return {static_cast<uint16_t>(i),
            static_cast<int32_t>(signal - first_[i]) % plan.signals[i].count};
  }
  return {};
}

std::string SignalLayout::name_of(const Plan& plan, uint32_t signal) const {
  if (signal >= num_signals_) return fmt::format("signal {}", signal);
  return describe(plan, ref_of(plan, signal));
}

std::string why_too_many_counters(const Plan& plan) {
  constexpr int64_t kMost = int64_t{1} << 26;
  int64_t count = 0;
  for (const SignalArray& array : plan.signals) count += int64_t{array.count} * array.copies;
  count *= plan.ranks();
  if (count <= kMost) return "";
  constexpr const char* kTooMany =
      "the signals of all ranks have {} counters, GPUs at most {}: take larger tiles or fewer "
      "ranks";
  return fmt::format(kTooMany, count, kMost);
}

}  // namespace stretto::cuda

#include "streams/stream_signals.h"

#include <algorithm>

#include "gpu/driver_api.h"

namespace stretto::runtime {

using cuda::check;
using cuda::DevicePtr;
using cuda::driver;
using cuda::Step;
using cuda::Stream;

DevicePtr StreamSignals::counter(const Instr& wait) const {
  return reinterpret_cast<DevicePtr>(setup_.own_counters) +
         uint64_t{setup_.signals.index_of(wait.signal)} * device::kSignalStride * 8;
}

void StreamSignals::add_waits(std::span<const Step> steps) {
  std::vector<device::WaitEntry> entries;
  std::vector<Step> by_kernel;
  for (const Step& step : steps) {
    const Instr& instr = step.instr(setup_.plan);
    if (setup_.signals.is_relative(setup_.rank, setup_.signals.index_of(instr.signal))) {
      acts_.push_back({Act::Kind::value_wait, static_cast<uint32_t>(value_waits_.size())});
      value_waits_.push_back(
          {step, counter(instr), setup_.signals.relative_threshold(setup_.rank, instr)});
    } else {
      entries.push_back(setup_.signals.wait_entry(setup_.plan, setup_.rank, instr));
      by_kernel.push_back(step);
    }
  }
  if (entries.empty()) return;
  acts_.push_back({Act::Kind::wait, static_cast<uint32_t>(waits_.size())});
  const device::SignalSpace space = setup_.spaces.add({nullptr, by_kernel});
  waits_.push_back({space, entries_.emplace_back(cuda::upload(entries)).as<device::WaitEntry>(),
                    nullptr, static_cast<uint32_t>(entries.size()), 0});
  waits_of_.push_back(std::move(by_kernel));
}

void StreamSignals::add_notifies(std::span<const Step> steps) {
  std::vector<device::NotifyEntry> entries;
  std::vector<cuda::CopiedNotify> copied;
  for (const Step& step : steps) {
    if (const auto* notify = setup_.copied_notifies.of(step.lane, step.position)) {
      copied.push_back(*notify);
    } else {
      entries.push_back(setup_.signals.notify_entry(setup_.plan, step.instr(setup_.plan)));
    }
  }
  if (!copied.empty()) {
    const std::vector<cuda::CopiedNotify> last = cuda::last_of_each_counter(copied);
    acts_.push_back({Act::Kind::copied_notify, static_cast<uint32_t>(copied_ranges_.size())});
    copied_ranges_.push_back({copied_.size(), last.size()});
    copied_.insert(copied_.end(), last.begin(), last.end());
  }
  if (entries.empty()) return;
  acts_.push_back({Act::Kind::notify, static_cast<uint32_t>(notifies_.size())});
  notifies_.push_back({setup_.spaces.add({}),
                       entries_.emplace_back(cuda::upload(entries)).as<device::NotifyEntry>(),
                       static_cast<uint32_t>(entries.size()), 0});
}

bool StreamSignals::is_kernel(uint32_t act) const {
  return acts_[act].kind == Act::Kind::wait || acts_[act].kind == Act::Kind::notify;
}

void StreamSignals::take_memory() {
  size_t count = 0;
  for (const device::StreamWaitParams& waits : waits_) count += waits.num_waits;
  let_go_ = cuda::DeviceMemory(count * sizeof(device::LetGo));
  auto* at = let_go_.as<device::LetGo>();
  for (device::StreamWaitParams& waits : waits_) {
    waits.let_go = at;
    at += waits.num_waits;
  }
  words_ = cuda::DeviceMemory(copied_.size() * sizeof(uint64_t));
  const std::span<const cuda::CopiedNotify> all(copied_);
  for (CopiedRange& range : copied_ranges_) {
    for (int set = 0; set < setup_.sets; ++set) {
      range.transfers.push_back(cuda::transfers_of(
          all.subspan(range.first, range.count), words_.address() + range.first * sizeof(uint64_t),
          setup_.counters, set));
    }
  }
}

void StreamSignals::add_end_of_run(bool counts) {
  std::vector<device::RelativeCounter> counters;
  for (uint32_t signal = 0; signal < setup_.signals.num_signals(); ++signal) {
    if (!setup_.signals.is_relative(setup_.rank, signal)) continue;
    counters.push_back({signal, 0, setup_.signals.per_run(setup_.rank, signal)});
  }
  std::vector<device::CopiedWord> copied;
  for (const cuda::CopiedNotify& notify : copied_) {
    copied.push_back({notify.per_run, notify.copies, 0});
  }
  if (counters.empty() && copied.empty() && !counts) return;
  advance_ = {setup_.spaces.add({}),
              entries_.emplace_back(cuda::upload(counters)).as<device::RelativeCounter>(),
              entries_.emplace_back(cuda::upload(copied)).as<device::CopiedWord>(),
              words_.as<device::uint64>(),
              static_cast<uint32_t>(counters.size()),
              static_cast<uint32_t>(copied.size())};
}

bool StreamSignals::alternates() const {
  return std::any_of(copied_ranges_.begin(), copied_ranges_.end(), [](const CopiedRange& range) {
    return std::any_of(range.transfers.begin(), range.transfers.end(),
                       [&](const auto& of_set) { return of_set != range.transfers.front(); });
  });
}

void StreamSignals::enqueue(uint32_t act, const Stream& stream, int set, bool beside_gemm,
                            bool overlap) const {
  const auto [kind, index] = acts_[act];
  switch (kind) {
    case Act::Kind::value_wait:
      check(driver().stream_wait_value(stream.handle(), value_waits_[index].counter,
                                       static_cast<uint64_t>(value_waits_[index].threshold),
                                       cuda::kWaitAtLeast),
            "wait in a stream");
      break;
    case Act::Kind::wait:
      setup_.sync.await(stream, waits_[index], beside_gemm, overlap);
      break;
    case Act::Kind::notify:
      setup_.sync.notify(stream, notifies_[index], overlap);
      break;
    case Act::Kind::copied_notify:
      for (const cuda::Transfer& transfer :
           copied_ranges_[index].transfers[static_cast<size_t>(set)]) {
        cuda::enqueue_transfer(stream, transfer);
      }
      break;
  }
}

void StreamSignals::restart() {
  const std::vector<device::LetGo> none(let_go_.num_bytes() / sizeof(device::LetGo));
  if (!none.empty()) let_go_.upload(none.data(), let_go_.num_bytes());
  std::vector<uint64_t> first_values;
  for (const cuda::CopiedNotify& notify : copied_) first_values.push_back(notify.value);
  if (!copied_.empty()) words_.upload(first_values.data(), first_values.size() * sizeof(uint64_t));
}

std::vector<StuckWait> StreamSignals::stuck() const {
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

std::vector<StuckWait> StreamSignals::let_go() const {
  if (waits_.empty()) return {};
  std::vector<device::LetGo> left(let_go_.num_bytes() / sizeof(device::LetGo));
  cuda::copy_from_gpu(left.data(), let_go_.address(), let_go_.num_bytes());
  std::vector<LeftWait> waits;
  for (const std::vector<Step>& of_kernel : waits_of_) {
    for (const Step& step : of_kernel) waits.push_back({step, left[waits.size()]});
  }
  return stood_still(setup_.plan, setup_.rank, waits);
}

void StreamSignals::release() const {
  constexpr int64_t kBeyondAll = int64_t{1} << 60;
  for (const ValueWait& wait : value_waits_) {
    cuda::copy_to_gpu(wait.counter, &kBeyondAll, sizeof(kBeyondAll));
  }
}

}  // namespace stretto::runtime

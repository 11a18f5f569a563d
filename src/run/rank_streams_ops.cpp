// What a run of a rank consists of: an op for each step.
#include <span>

#include "run/rank_streams.h"
#include "stretto/error.h"

namespace stretto::runtime {

using cuda::DevicePtr;
using cuda::Step;
using cuda::StepKind;

void RankStreams::add_ops() {
  const cuda::RankProgram& program = setup_.program;
  for (size_t at = 0; at < program.order.size();) {
    const auto [stream, position] = program.order[at];
    const Step& step = program.streams[stream].steps[position];
    // Waits that follow each other in a stream are one kernel, and so are notifies.
    std::vector<Step> same = {step};
    for (++at; at < program.order.size() && program.order[at].first == stream; ++at) {
      const Step& next = program.streams[stream].steps[program.order[at].second];
      if (next.kind != step.kind ||
          (step.kind != StepKind::wait && step.kind != StepKind::notify)) {
        break;
      }
      same.push_back(next);
    }
    switch (step.kind) {
      case StepKind::gemm:
        ops_.push_back({StreamOp::gemm, stream, step.index});
        break;
      case StepKind::move:
        ops_.push_back({StreamOp::move, stream, step.index});
        break;
      case StepKind::wait:
        add_waits(stream, same);
        break;
      case StepKind::notify:
        add_notifies(stream, same);
        break;
      case StepKind::copy:
        add_copy(stream, step);
        break;
      case StepKind::collective:
        add_collective(stream, step);
        break;
      case StepKind::record:
        ops_.push_back({StreamOp::record, stream, step.index});
        break;
      case StepKind::await:
        ops_.push_back({StreamOp::await, stream, step.index});
        break;
    }
  }
}

DevicePtr RankStreams::counter(const Instr& wait) const {
  return reinterpret_cast<DevicePtr>(setup_.space.own) +
         uint64_t{setup_.signals.index_of(wait.signal)} * device::kSignalStride * 8;
}

void RankStreams::add_waits(uint32_t stream, const std::vector<Step>& steps) {
  std::vector<device::WaitEntry> entries;
  std::vector<Step> by_kernel;
  for (const Step& step : steps) {
    const Instr& instr = step.instr(setup_.plan);
    if (setup_.signals.is_relative(setup_.rank, setup_.signals.index_of(instr.signal))) {
      ops_.push_back({StreamOp::wait_value, stream, static_cast<uint32_t>(value_waits_.size())});
      value_waits_.push_back(
          {step, counter(instr), setup_.signals.relative_threshold(setup_.rank, instr)});
    } else {
      entries.push_back(setup_.signals.wait_entry(setup_.plan, setup_.rank, instr));
      by_kernel.push_back(step);
    }
  }
  if (entries.empty()) return;
  ops_.push_back({StreamOp::wait, stream, static_cast<uint32_t>(waits_.size())});
  const device::SignalSpace space = space_of({nullptr, by_kernel});
  waits_.push_back({space, entries_.emplace_back(cuda::upload(entries)).as<device::WaitEntry>(),
                    nullptr, static_cast<uint32_t>(entries.size()), 0});
  waits_of_.push_back(std::move(by_kernel));
}

void RankStreams::place_let_go_words() {
  size_t count = 0;
  for (const device::StreamWaitParams& waits : waits_) count += waits.num_waits;
  let_go_ = cuda::DeviceMemory(count * sizeof(device::LetGo));
  auto* at = let_go_.as<device::LetGo>();
  for (device::StreamWaitParams& waits : waits_) {
    waits.let_go = at;
    at += waits.num_waits;
  }
}

void RankStreams::clear_let_go_words() {
  const std::vector<device::LetGo> none(let_go_.num_bytes() / sizeof(device::LetGo));
  if (!none.empty()) let_go_.upload(none.data(), let_go_.num_bytes());
}

void RankStreams::add_notifies(uint32_t stream, const std::vector<Step>& steps) {
  std::vector<device::NotifyEntry> entries;
  std::vector<cuda::CopiedNotify> copied;
  for (const Step& step : steps) {
    if (const auto* notify = setup_.copied_notifies.of(step.lane, step.position)) {
      copied.push_back(*notify);
    } else {
      entries.push_back(setup_.signals.notify_entry(setup_.plan, step.instr(setup_.plan)));
    }
  }
  if (!copied.empty()) add_copied_notifies(stream, cuda::last_of_each_counter(copied));
  if (entries.empty()) return;
  ops_.push_back({StreamOp::notify, stream, static_cast<uint32_t>(notifies_.size())});
  notifies_.push_back({space_of({}),
                       entries_.emplace_back(cuda::upload(entries)).as<device::NotifyEntry>(),
                       static_cast<uint32_t>(entries.size()), 0});
}

void RankStreams::add_copied_notifies(uint32_t stream,
                                      const std::vector<cuda::CopiedNotify>& notifies) {
  ops_.push_back({StreamOp::copied_notify, stream, static_cast<uint32_t>(copied_ranges_.size())});
  copied_ranges_.push_back({copied_.size(), notifies.size()});
  copied_.insert(copied_.end(), notifies.begin(), notifies.end());
}

void RankStreams::place_copied_notifies() {
  words_ = cuda::DeviceMemory(copied_.size() * sizeof(uint64_t));
  const std::span<const cuda::CopiedNotify> all(copied_);
  for (const auto& [first, count] : copied_ranges_) {
    auto& by_set = copied_transfers_.emplace_back();
    for (int set = 0; set < sets_; ++set) {
      by_set.push_back(cuda::transfers_of(all.subspan(first, count),
                                          words_.address() + first * sizeof(uint64_t),
                                          setup_.counters, set));
      alternates_ = alternates_ || by_set.back() != by_set.front();
    }
  }
  restart();
}

void RankStreams::add_copy(uint32_t stream, const Step& step) {
  ops_.push_back({StreamOp::copy, stream, static_cast<uint32_t>(copies_.size())});
  auto& by_set = copies_.emplace_back();
  for (int set = 0; set < sets_; ++set) {
    by_set.push_back(cuda::transfers_of(setup_.plan, step.instr(setup_.plan), setup_.places, set));
    alternates_ = alternates_ || by_set.back() != by_set.front();
  }
}

void RankStreams::add_collective(uint32_t stream, const Step& step) {
  if (setup_.low_latency != nullptr) {
    ops_.push_back({StreamOp::collective, stream, static_cast<uint32_t>(low_latency_.size())});
    LowLatencyOp& made = low_latency_.emplace_back();
    for (auto& [kernel, product] : few_rows_) {
      if (setup_.program.sent[kernel] == step) {
        product.receiver = static_cast<uint32_t>(low_latency_.size() - 1);
      }
    }
    made.id = step.instr(setup_.plan).id;
    for (int set = 0; set < sets_; ++set) {
      made.by_set.push_back(
          cuda::low_latency_call(setup_.plan, step.lane, step.position, setup_.places, set));
      alternates_ = alternates_ || made.by_set.back() != made.by_set.front();
    }
    return;
  }
  STRETTO_ASSERT(setup_.communicators != nullptr, "collectives come with communicators");
  ops_.push_back({StreamOp::collective, stream, static_cast<uint32_t>(collectives_.size())});
  auto& by_set = collectives_.emplace_back();
  for (int set = 0; set < sets_; ++set) {
    by_set.push_back(cuda::nccl_calls(setup_.plan, step.lane, step.position, setup_.places, set));
    alternates_ = alternates_ || by_set.back() != by_set.front();
  }
}

void RankStreams::add_ends_of_run() {
  if (alternates_) check_set_ = {space_of({}), 0, static_cast<uint32_t>(sets_)};
  std::vector<device::RelativeCounter> counters;
  for (uint32_t signal = 0; signal < setup_.signals.num_signals(); ++signal) {
    if (!setup_.signals.is_relative(setup_.rank, signal)) continue;
    counters.push_back({signal, 0, setup_.signals.per_run(setup_.rank, signal)});
  }
  std::vector<device::CopiedWord> copied;
  for (const cuda::CopiedNotify& notify : copied_) {
    copied.push_back({notify.per_run, notify.copies, 0});
  }
  // A run without any kernel has one all the same, so that the host sees runs go by; but not where
  // it would take its time behind a library's kernels.
  if (counters.empty() && copied.empty() &&
      (!counts_.empty() || library_.is_any() || !few_rows_.empty())) {
    return;
  }
  advance_ = {space_of({}),
              entries_.emplace_back(cuda::upload(counters)).as<device::RelativeCounter>(),
              entries_.emplace_back(cuda::upload(copied)).as<device::CopiedWord>(),
              words_.as<device::uint64>(),
              static_cast<uint32_t>(counters.size()),
              static_cast<uint32_t>(copied.size())};
}

}  // namespace stretto::runtime

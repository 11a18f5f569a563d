#include "runtime/rank_streams.h"

#include <algorithm>

#include "stretto/error.h"

namespace stretto::runtime {

using cuda::check;
using cuda::DevicePtr;
using cuda::driver;
using cuda::Step;
using cuda::StepKind;
using cuda::Stream;

RankStreams::RankStreams(const Setup& setup)
    : setup_(setup),
      sets_(cuda::num_sets(setup.plan)),
      fork_(false),
      sync_(setup.kernels.sync(setup.device)) {
  for (size_t i = 0; i < setup.program.streams.size(); ++i) {
    streams_.push_back(i == 0 ? nullptr : std::make_unique<Stream>());
    joins_.push_back(std::make_unique<cuda::Event>(false));
  }
  for (uint32_t i = 0; i < setup.program.num_events; ++i) {
    events_.push_back(std::make_unique<cuda::Event>(false));
  }
  add_kernels();
  add_ops();
  place_copied_notifies();
  add_ends_of_run();
  overlaps_ = ops_.size() == 1 && ops_[0].kind == OpKind::gemm && streams_.size() == 1 &&
              !advance_ && !alternates_;
}

device::SignalSpace RankStreams::space_of(KernelPlace place, int blocks) {
  device::SignalSpace space = setup_.space;
  space.runs = counts_.add(blocks);
  space.kernel = static_cast<uint32_t>(places_of_kernels_.size());
  places_of_kernels_.push_back(std::move(place));
  return space;
}

void RankStreams::add_kernels() {
  const cuda::RankProgram& program = setup_.program;
  cuda::RankTables tables = cuda::tables_for(setup_.plan, setup_.rank, program, setup_.places,
                                             setup_.signals, setup_.serves);
  for (size_t i = 0; i < tables.gemms.size(); ++i) {
    cuda::encode_maps(tables.gemms[i], tables.config);
    const auto blocks = static_cast<int>(tables.gemms[i].table.blocks.size());
    gemms_.emplace_back(tables.gemms[i].table, space_of({&program.gemms[i], {}}, blocks));
  }
  for (size_t i = 0; i < tables.moves.size(); ++i) {
    const auto blocks = static_cast<int>(tables.moves[i].blocks.size());
    moves_.emplace_back(tables.moves[i], space_of({&program.moves[i], {}}, blocks));
  }
  if (!gemms_.empty()) gemm_ = &setup_.kernels.gemm(setup_.device, tables.config);
  if (!moves_.empty() && !program.joins()) mover_ = &setup_.kernels.mover(setup_.device);
}

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
        ops_.push_back({OpKind::gemm, stream, step.index});
        break;
      case StepKind::move:
        ops_.push_back({OpKind::move, stream, step.index});
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
        ops_.push_back({OpKind::record, stream, step.index});
        break;
      case StepKind::await:
        ops_.push_back({OpKind::await, stream, step.index});
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
      ops_.push_back({OpKind::wait_value, stream, static_cast<uint32_t>(value_waits_.size())});
      value_waits_.push_back(
          {step, counter(instr), setup_.signals.relative_threshold(setup_.rank, instr)});
    } else {
      entries.push_back(setup_.signals.wait_entry(setup_.plan, setup_.rank, instr));
      by_kernel.push_back(step);
    }
  }
  if (entries.empty()) return;
  ops_.push_back({OpKind::wait, stream, static_cast<uint32_t>(waits_.size())});
  const device::SignalSpace space = space_of({nullptr, by_kernel});
  waits_.push_back({space, entries_.emplace_back(cuda::upload(entries)).as<device::WaitEntry>(),
                    static_cast<uint32_t>(entries.size()), 0});
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
  ops_.push_back({OpKind::notify, stream, static_cast<uint32_t>(notifies_.size())});
  notifies_.push_back({space_of({}),
                       entries_.emplace_back(cuda::upload(entries)).as<device::NotifyEntry>(),
                       static_cast<uint32_t>(entries.size()), 0});
}

void RankStreams::add_copied_notifies(uint32_t stream,
                                      const std::vector<cuda::CopiedNotify>& notifies) {
  ops_.push_back({OpKind::copied_notify, stream, static_cast<uint32_t>(copied_ranges_.size())});
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

void RankStreams::restart() {
  eager_runs_ = captured_runs_ = 0;
  counts_.restart();
  std::vector<uint64_t> first_values;
  for (const cuda::CopiedNotify& notify : copied_) first_values.push_back(notify.value);
  if (!copied_.empty()) words_.upload(first_values.data(), first_values.size() * sizeof(uint64_t));
}

void RankStreams::add_copy(uint32_t stream, const Step& step) {
  ops_.push_back({OpKind::copy, stream, static_cast<uint32_t>(copies_.size())});
  auto& by_set = copies_.emplace_back();
  for (int set = 0; set < sets_; ++set) {
    by_set.push_back(cuda::transfers_of(setup_.plan, step.instr(setup_.plan), setup_.places, set));
    alternates_ = alternates_ || by_set.back() != by_set.front();
  }
}

void RankStreams::add_collective(uint32_t stream, const Step& step) {
  STRETTO_ASSERT(setup_.communicators != nullptr, "nccl lanes come with communicators");
  ops_.push_back({OpKind::collective, stream, static_cast<uint32_t>(collectives_.size())});
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
  // A run without any kernel has one all the same, so that the host sees runs go by.
  if (counters.empty() && copied.empty() && !counts_.empty()) return;
  advance_ = {space_of({}),
              entries_.emplace_back(cuda::upload(counters)).as<device::RelativeCounter>(),
              entries_.emplace_back(cuda::upload(copied)).as<device::CopiedWord>(),
              words_.as<device::uint64>(),
              static_cast<uint32_t>(counters.size()),
              static_cast<uint32_t>(copied.size())};
}

int RankStreams::next_set(cuda::StreamHandle main) {
  int status = 0;
  uint64_t capture = 0;
  check(driver().capture_info(main, &status, &capture, nullptr, nullptr, nullptr),
        "ask whether a stream is captured");
  const auto sets = static_cast<uint64_t>(sets_);
  if (status == 0) return static_cast<int>(eager_runs_++ % sets);
  // A graph is taken to be launched when the runs before it are the ones that were enqueued.
  if (capture != capture_) captured_runs_ = eager_runs_;
  capture_ = capture;
  return static_cast<int>(captured_runs_++ % sets);
}

void RankStreams::enqueue(cuda::StreamHandle handle, const CallRows& rows) {
  const Stream main(handle);
  int set = 0;
  if (alternates_) {
    set = next_set(handle);
    device::CheckSetParams params = check_set_;
    params.expected_set = static_cast<uint32_t>(set);
    sync_.check_set(main, params);
  }
  if (streams_.size() > 1) fork_.record(main);
  for (size_t i = 1; i < streams_.size(); ++i) streams_[i]->wait(fork_);
  for (const Op& op : ops_) issue(op, op.stream == 0 ? main : *streams_[op.stream], set, rows);
  for (size_t i = 1; i < streams_.size(); ++i) {
    joins_[i]->record(*streams_[i]);
    main.wait(*joins_[i]);
  }
  if (advance_) sync_.advance(main, *advance_);
}

template <typename Params>
Params RankStreams::with_rows(const Params& params, const CallRows& rows) const {
  Params result = params;
  if (rows.at != 0) {
    result.rows.at = reinterpret_cast<const int32_t*>(rows.at);
  } else if (rows.rows != 0) {
    result.rows.rows = rows.rows;
  }
  return result;
}

void RankStreams::issue(const Op& op, const Stream& stream, int set, const CallRows& rows) {
  switch (op.kind) {
    case OpKind::gemm: {
      const cuda::DeviceGemmTable& table = gemms_[op.index];
      const device::GemmParams params = with_rows(table.params(), rows);
      if (setup_.program.joins()) {
        const auto movers = static_cast<uint32_t>(moves_[0].num_blocks());
        gemm_->launch(stream, table.num_blocks(),
                      {params, with_rows(moves_[0].params(), rows), movers, 0}, overlaps_);
      } else {
        gemm_->launch(stream, table.num_blocks(), params, overlaps_);
      }
      break;
    }
    case OpKind::move: {
      const device::MoverParams params = with_rows(moves_[op.index].params(), rows);
      mover_->launch(stream, moves_[op.index].num_blocks(), device::kMoverThreads, 1, &params);
      break;
    }
    case OpKind::wait_value:
      check(driver().stream_wait_value(stream.handle(), value_waits_[op.index].counter,
                                       static_cast<uint64_t>(value_waits_[op.index].threshold),
                                       cuda::kWaitAtLeast),
            "wait in a stream");
      break;
    case OpKind::wait:
      sync_.await(stream, waits_[op.index]);
      break;
    case OpKind::notify:
      sync_.notify(stream, notifies_[op.index]);
      break;
    case OpKind::copy:
      for (const cuda::Transfer& transfer : copies_[op.index][static_cast<size_t>(set)]) {
        cuda::enqueue_transfer(stream, transfer);
      }
      break;
    case OpKind::copied_notify:
      for (const cuda::Transfer& transfer : copied_transfers_[op.index][static_cast<size_t>(set)]) {
        cuda::enqueue_transfer(stream, transfer);
      }
      break;
    case OpKind::collective:
      make_calls(*setup_.communicators, setup_.rank, stream,
                 collectives_[op.index][static_cast<size_t>(set)]);
      break;
    case OpKind::record:
      events_[op.index]->record(stream);
      break;
    case OpKind::await:
      stream.wait(*events_[op.index]);
      break;
  }
}

void RankStreams::enqueue_collectives(const Stream& stream) const {
  for (const auto& by_set : collectives_) {
    make_calls(*setup_.communicators, setup_.rank, stream, by_set.front());
  }
}

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
    check(driver().copy_to_host(&seen, wait.counter, sizeof(seen)), "read a counter");
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
    check(driver().copy_to_device(wait.counter, &kBeyondAll, sizeof(kBeyondAll)),
          "release a waiting stream");
  }
}

}  // namespace stretto::runtime

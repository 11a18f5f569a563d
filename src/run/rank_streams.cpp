// The runs of a rank; what they consist of is made in
// rank_streams_{kernels,products,ops,calls}.cpp.
#include "run/rank_streams.h"

#include <algorithm>
#include <utility>

#include "stretto/serve.h"

namespace stretto::runtime {

using cuda::check;
using cuda::driver;
using cuda::Stream;

// A plan has so many on each rank: one for each layer of a model, for one or two row counts.
constexpr size_t kMostGraphs = 128;

RankStreams::RankStreams(const Setup& setup)
    : setup_(setup),
      sets_(cuda::num_sets(setup.plan)),
      fork_(false),
      sync_(setup.kernels.sync(setup.device)),
      library_({setup.plan, setup.places, setup.device, setup.kernels, sets_, setup.serves,
                setup.rows_in_memory, setup.calls != nullptr, setup.first_algorithms,
                setup.most_proposals}),
      experts_({setup.plan, setup.rank, setup.places, setup.device, setup.kernels, sets_}) {
  for (size_t i = 0; i < setup.program.streams.size(); ++i) {
    streams_.push_back(i == 0 ? nullptr : std::make_unique<Stream>());
    joins_.push_back(std::make_unique<cuda::Event>(false));
  }
  for (uint32_t i = 0; i < setup.program.num_events; ++i) {
    events_.push_back(std::make_unique<cuda::Event>(false));
  }
  add_kernels();
  add_ops();
  place_let_go_words();
  place_copied_notifies();
  add_ends_of_run();
  if (counts_.empty()) shown_at_ = reinterpret_cast<cuda::DevicePtr>(counts_.add(1));
  kernels_overlap_ =
      streams_.size() == 1 && setup.device.ranks() == 1 && setup.device.can_overlap();
  const bool begins_with_tiles =
      !ops_.empty() && ops_[0].kind == StreamOp::gemm &&
      (!setup.program.needs[ops_[0].index].library || setup.program.needs[ops_[0].index].few_rows);
  overlaps_ = kernels_overlap_ && begins_with_tiles && !advance_ && !alternates_;
  if (takes_graphs()) {
    call_graphs_ = std::make_unique<CallGraphs>(kMostGraphs, *setup.call_graphs);
  }
}

// One kernel of ours is launched as it is: in a graph it would start only once the kernel before it
// has ended. Graphs that hold collectives of NCCL would outlive their communicator.
bool RankStreams::takes_graphs() const {
  if (setup_.calls == nullptr || setup_.communicators != nullptr) return false;
  const auto& tensors = setup_.calls->all();
  const bool copies = std::any_of(tensors.begin(), tensors.end(),
                                  [](const CallTensors::Tensor& t) { return t.is_copied; });
  const bool is_by_library = std::any_of(ops_.begin(), ops_.end(), [&](const Op& op) {
    return op.kind == StreamOp::gemm && !is_kernel_of_ours(op.index);
  });
  return copies || ops_.size() > 1 || is_by_library || alternates_ || advance_.has_value();
}

std::vector<KernelMarks> RankStreams::marks() const {
  std::vector<KernelMarks> marks = marks_;
  for (size_t i = 0; i < marks.size(); ++i) {
    const cuda::MarkWords& words =
        i < gemms_.size() ? gemms_[i].marks() : moves_[i - gemms_.size()].marks();
    marks[i].words = words.read();
  }
  return marks;
}

void RankStreams::restart() {
  eager_runs_ = captured_runs_ = shown_runs_ = runs_since_end_ = 0;
  counts_.restart();
  experts_.restart();
  clear_let_go_words();
  std::vector<uint64_t> first_values;
  for (const cuda::CopiedNotify& notify : copied_) first_values.push_back(notify.value);
  if (!copied_.empty()) words_.upload(first_values.data(), first_values.size() * sizeof(uint64_t));
}

int RankStreams::next_set(const std::optional<uint64_t>& capture) {
  const auto sets = static_cast<uint64_t>(sets_);
  if (!capture) return static_cast<int>(eager_runs_++ % sets);
  // A graph is taken to be launched when the runs before it are the ones that were enqueued.
  if (*capture != capture_) captured_runs_ = eager_runs_;
  capture_ = *capture;
  return static_cast<int>(captured_runs_++ % sets);
}

// A library's kernels count nothing, so that the host, which alone can give up NCCL's collectives,
// would not tell many runs from one that hangs. A stream's write takes a small part of what a
// kernel of one thread does, and not every run needs one.
void RankStreams::show_run(const Stream& main, bool is_captured) {
  constexpr uint64_t kRunsAWrite = 8;
  is_captured_ = is_captured_ || is_captured;
  if (shown_at_ == 0 || is_captured || runs_since_end_++ % kRunsAWrite != 0) return;
  check(driver().stream_write_value(main.handle(), shown_at_, ++shown_runs_, 0),
        "write in a stream");
}

// Launches of a run with what it always has: its rows, its tensors and the set of instances.
void RankStreams::enqueue(cuda::StreamHandle handle, const RowsOfCall& rows,
                          const std::optional<uint64_t>& capture, cuda::CallPlaces places) {
  const Stream main(handle);
  call_ = {places, 0};
  show_run(main, capture.has_value());
  CallSlots::Key key;
  if (setup_.calls != nullptr) key = begin_call(main, capture.has_value());
  const int set = alternates_ ? next_set(capture) : 0;
  if (capture || !call_graphs_) {
    enqueue_run(main, rows, set);
    return;
  }
  key.insert(key.end(),
             {call_.blob, static_cast<uint64_t>(rows.rows), rows.at, static_cast<uint64_t>(set)});
  call_graphs_->run(main, std::move(key), kind_of_call(rows, set),
                    [&](const Stream& stream) { enqueue_run(stream, rows, set); });
}

void RankStreams::enqueue_run(const Stream& main, const RowsOfCall& rows, int set) {
  experts_.prepare(set, call_.places);
  if (setup_.calls != nullptr) copy_tensors(main, false, rows);
  if (alternates_) {
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
  if (setup_.calls != nullptr) copy_tensors(main, true, rows);
}

template <typename Params>
Params RankStreams::with_rows(const Params& params, const RowsOfCall& rows) const {
  Params result = params;
  if (rows.at != 0) {
    result.rows.at = reinterpret_cast<const int32_t*>(rows.at);
  } else if (rows.rows != 0) {
    result.rows.rows = rows.rows;
  }
  return result;
}

bool RankStreams::is_kernel_of_ours(uint32_t gemm) const {
  if (!setup_.program.needs[gemm].library) return true;
  return !library_.has(setup_.program.number_of_kind(gemm));  // of experts
}

bool RankStreams::starts_early(const Op& op) const {
  const auto is_ours = [&](const Op& one) {
    return one.kind == StreamOp::move || one.kind == StreamOp::wait ||
           one.kind == StreamOp::notify ||
           (one.kind == StreamOp::gemm && is_kernel_of_ours(one.index));
  };
  const auto at = static_cast<size_t>(&op - ops_.data());
  if (at == 0) return overlaps_;
  return kernels_overlap_ && is_ours(op) && is_ours(ops_[at - 1]);
}

void RankStreams::issue(const Op& op, const Stream& stream, int set, const RowsOfCall& rows) {
  switch (op.kind) {
    case StreamOp::gemm: {
      if (setup_.program.needs[op.index].few_rows) {
        send_product(op, stream, set, rows);
        break;
      }
      const uint32_t number = setup_.program.number_of_kind(op.index);
      if (setup_.program.needs[op.index].library) {
        multiply(number, stream, set, rows, starts_early(op));
        break;
      }
      const cuda::DeviceGemmTable& table = gemms_[number];
      const cuda::GemmKernel& kernel = *gemm_kernels_[number];
      const device::GemmParams params = at_call(with_rows(table.params(), rows), number);
      if (const std::optional<uint32_t> joined = setup_.program.movers[op.index]) {
        const cuda::DeviceMoverTable& beside = moves_[*joined];
        const auto movers = static_cast<uint32_t>(beside.num_blocks());
        kernel.launch(stream, table.num_blocks(),
                      {params, at_call(with_rows(beside.params(), rows), *joined), movers,
                       device::mover_blocks(kernel.config(), movers)},
                      starts_early(op));
      } else if (const std::optional<uint32_t> number_of_rows = setup_.program.rows[op.index]) {
        const device::MoverParams behind =
            at_call(with_rows(moves_[*number_of_rows].params(), rows), *number_of_rows);
        kernel.launch(stream, table.num_blocks(), device::GemmRowsParams{params, behind},
                      starts_early(op));
      } else {
        kernel.launch(stream, table.num_blocks(), params, starts_early(op));
      }
      break;
    }
    case StreamOp::move: {
      const device::MoverParams params =
          at_call(with_rows(moves_[op.index].params(), rows), op.index);
      const cuda::DeviceMoverTable& table = moves_[op.index];
      if (const int cluster = table.cluster()) {
        const device::PassParams pass = table.pass_params(params);
        partition_->launch(stream, table.num_blocks() * cluster, device::kPartitionThreads, cluster,
                           &pass, starts_early(op));
      } else if (table.passes()) {
        const device::PassParams pass = table.pass_params(params);
        pass_->launch(stream, table.num_pass_blocks(), device::kPassThreads, 1, &pass,
                      starts_early(op));
      } else {
        mover_->launch(stream, table.num_blocks(), device::kMoverThreads, 1, &params,
                       starts_early(op));
      }
      break;
    }
    case StreamOp::wait_value:
      check(driver().stream_wait_value(stream.handle(), value_waits_[op.index].counter,
                                       static_cast<uint64_t>(value_waits_[op.index].threshold),
                                       cuda::kWaitAtLeast),
            "wait in a stream");
      break;
    case StreamOp::wait:
      sync_.await(stream, waits_[op.index], op.stream != 0, starts_early(op));
      break;
    case StreamOp::notify:
      sync_.notify(stream, notifies_[op.index], starts_early(op));
      break;
    case StreamOp::copy:
      for (const cuda::Transfer& transfer : copies_[op.index][static_cast<size_t>(set)]) {
        const cuda::Transfer made = cuda::at_call(transfer, call_.places);
        if (made.rows > 0) cuda::enqueue_transfer(stream, made);
      }
      break;
    case StreamOp::copied_notify:
      for (const cuda::Transfer& transfer : copied_transfers_[op.index][static_cast<size_t>(set)]) {
        cuda::enqueue_transfer(stream, transfer);
      }
      break;
    case StreamOp::collective:
      make_collective(op, stream, set, rows);
      break;
    case StreamOp::record:
      events_[op.index]->record(stream);
      break;
    case StreamOp::await:
      stream.wait(*events_[op.index]);
      break;
  }
}

void RankStreams::make_collective(const Op& op, const Stream& stream, int set,
                                  const RowsOfCall& rows) const {
  if (setup_.low_latency == nullptr) {
    std::vector<cuda::NcclCall> calls = collectives_[op.index][static_cast<size_t>(set)];
    for (cuda::NcclCall& call : calls) call = cuda::at_call(call, call_.places);
    make_calls(*setup_.communicators, setup_.rank, stream, calls);
    return;
  }
  const LowLatencyOp& made = low_latency_[op.index];
  cuda::LowLatencyCall call = call_of(made, set, rows);
  if (call.chosen.counts_bad_ids) call.chosen.bad_ids = bad_ids_.address();
  setup_.low_latency->launch(made.id, setup_.rank, stream, call, receives_early(op, set, call));
}

cuda::LowLatencyCall RankStreams::call_of(const LowLatencyOp& made, int set,
                                          const RowsOfCall& rows) const {
  cuda::LowLatencyCall call = made.by_set[static_cast<size_t>(set)];
  const int64_t all = setup_.plan.op.rows();
  if (rows.at != 0) {
    const device::RunRows most = run_rows(setup_.plan.op, rows.rows != 0 ? rows.rows : all);
    call = cuda::with_rows_at(call, rows.at, most, all);
  } else if (rows.rows != 0) {
    call = cuda::with_rows(call, run_rows(setup_.plan.op, rows.rows), all);
  }
  return cuda::at_call(call, call_.places);
}

void RankStreams::enqueue_collectives(const Stream& stream) {
  call_ = {places_before_calls(), 0};
  for (uint32_t i = 0; i < collectives_.size(); ++i) {
    make_collective({StreamOp::collective, 0, i}, stream, 0, {});
  }
}

}  // namespace stretto::runtime

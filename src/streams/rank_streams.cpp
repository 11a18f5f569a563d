// The runs of a rank; the ops that they consist of are in rank_streams_ops.cpp.
#include "streams/rank_streams.h"

#include <algorithm>
#include <utility>

#include "tables/call_lists.h"

namespace stretto::runtime {

using cuda::check;
using cuda::driver;
using cuda::Stream;

// A plan has so many on each rank: one for each layer of a model, for one or two row counts.
constexpr size_t kMostGraphs = 128;

namespace {

LaunchSetup launch_setup(const RankStreams::Setup& of) {
  return {of.plan, of.rank, of.places, of.device, of.kernels, cuda::num_sets(of.plan)};
}

}  // namespace

RankStreams::RankStreams(const Setup& setup)
    : setup_(setup),
      sets_(cuda::num_sets(setup.plan)),
      kernels_overlap_(setup.program.streams.size() == 1 && setup.device.can_overlap()),
      fork_(false),
      sync_(setup.kernels.sync(setup.device)),
      spaces_(setup.plan, setup.rank, setup.signals, setup.space),
      tables_({launch_setup(setup), setup.program, setup.signals, spaces_, setup.serves,
               setup.marks, setup.calls != nullptr}),
      signals_({setup.plan, setup.rank, setup.signals, setup.copied_notifies, setup.space.own,
                setup.counters, sync_, spaces_, sets_}),
      library_({launch_setup(setup), setup.serves, setup.rows_in_memory, setup.calls != nullptr,
                setup.first_algorithms, setup.most_proposals}),
      experts_(launch_setup(setup)),
      collectives_(
          {setup.plan, setup.rank, setup.places, sets_, setup.communicators, setup.low_latency}),
      few_rows_(launch_setup(setup), collectives_) {
  if (setup.calls != nullptr) {
    copied_.emplace(setup.plan, setup.rank, setup.places, *setup.calls, setup.device, setup.kernels,
                    setup.rows_in_memory);
  }
  for (size_t i = 0; i < setup.program.streams.size(); ++i) {
    streams_.push_back(i == 0 ? nullptr : std::make_unique<Stream>());
    joins_.push_back(std::make_unique<cuda::Event>(false));
  }
  for (uint32_t i = 0; i < setup.program.num_events; ++i) {
    events_.push_back(std::make_unique<cuda::Event>(false));
  }
  for (uint32_t kernel = 0; kernel < setup.program.gemms.size(); ++kernel) {
    if (setup.program.needs[kernel].library) add_product(kernel);
  }
  library_.take_memory();
  add_ops();
  signals_.take_memory();
  restart();
  alternates_ = do_places_alternate();
  if (alternates_) check_set_ = {spaces_.add({}), 0, static_cast<uint32_t>(sets_)};
  // A run without any kernel has one all the same, so that the host sees runs go by; but not where
  // it would take its time behind a library's kernels.
  signals_.add_end_of_run(spaces_.empty() && !library_.is_any() && !experts_.is_any() &&
                          few_rows_.empty());
  if (spaces_.empty()) shown_at_ = spaces_.add_count();
  const bool begins_with_tiles =
      !ops_.empty() && ops_[0].kind == StreamOp::gemm &&
      (!setup.program.needs[ops_[0].index].library || setup.program.needs[ops_[0].index].few_rows);
  overlaps_ = kernels_overlap_ && begins_with_tiles && !signals_.has_end_of_run() && !alternates_;
  if (takes_graphs()) {
    call_graphs_ = std::make_unique<CallGraphs>(kMostGraphs, *setup.call_graphs);
  }
}

// One kernel of ours is launched as it is: in a graph it would start only once the kernel before it
// has ended. Graphs that hold collectives of NCCL would outlive their communicator.
bool RankStreams::takes_graphs() const {
  if (!copied_ || setup_.communicators != nullptr) return false;
  const bool is_by_library = std::any_of(ops_.begin(), ops_.end(), [&](const Op& op) {
    return op.kind == StreamOp::gemm && !is_kernel_of_ours(op.index);
  });
  return !copied_->empty() || ops_.size() > 1 || is_by_library || alternates_ ||
         signals_.has_end_of_run();
}

void RankStreams::restart() {
  eager_runs_ = captured_runs_ = shown_runs_ = runs_since_end_ = 0;
  spaces_.restart();
  experts_.restart();
  signals_.restart();
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

CallSlots::Key RankStreams::begin_call(const Stream& main, bool is_captured) {
  CallSlots::Key key;
  const size_t tensors = setup_.calls->all().size();  // places on other ranks follow from these
  key.reserve(tensors * 3 + 4);
  for (const cuda::CallPlace& place : call_.places.first(tensors)) {
    key.insert(key.end(), {place.address, place.row_bytes, static_cast<uint64_t>(place.rows)});
  }
  call_.blob = tables_.blob_of(main, key, call_.places, is_captured);
  copied_bytes_ += copied_->bytes(call_.places);
  return key;
}

// cuBLAS is asked for other products where tensors lie at other multiples, or rows otherwise apart.
CallSlots::Key RankStreams::kind_of_call(const RowsOfCall& rows, int set) const {
  CallSlots::Key kind = {static_cast<uint64_t>(rows.rows), rows.at != 0,
                         static_cast<uint64_t>(set)};
  for (const cuda::CallPlace& place : call_.places.first(setup_.calls->all().size())) {
    kind.insert(kind.end(), {cuda::alignment_of(place.address), place.row_bytes,
                             static_cast<uint64_t>(place.rows)});
  }
  return kind;
}

// Launches of a run with what it always has: its rows, its tensors and the set of instances.
void RankStreams::enqueue(cuda::StreamHandle handle, const RowsOfCall& rows,
                          const std::optional<uint64_t>& capture, cuda::CallPlaces places) {
  const Stream main(handle);
  call_ = {places, 0};
  show_run(main, capture.has_value());
  CallSlots::Key key;
  if (copied_) key = begin_call(main, capture.has_value());
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
  if (copied_) copied_->copy_inputs(main, call_.places, rows);
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
  signals_.end_run(main);
  if (copied_) copied_->copy_outputs(main, call_.places, rows);
}

void RankStreams::enqueue_collectives(const Stream& stream) {
  if (setup_.communicators == nullptr) return;
  const cuda::CallPlaces places = places_before_calls();
  for (uint32_t i = 0; i < collectives_.size(); ++i) {
    if (collectives_.is_nccls(i)) collectives_.make(i, stream, 0, places);
  }
}

void RankStreams::enqueue_products(const Stream& stream) {
  if (library_.is_any()) library_.launch_every_algorithm(stream, places_before_calls());
}

cuda::CallPlaces RankStreams::places_before_calls() {
  if (setup_.calls == nullptr || !before_calls_.empty()) return before_calls_;
  size_t most = 0;
  for (const CallTensors::Tensor& tensor : setup_.calls->all()) {
    const auto row = static_cast<size_t>(tensor.cols * num_bytes(tensor.dtype));
    most = std::max(most, row * static_cast<size_t>(tensor.rows));
    before_calls_.push_back({0, row, row, tensor.rows});
  }
  most = std::max(most, library_.most_weight_bytes());
  for (size_t i = 0; i < setup_.calls->all().size(); ++i) {
    if (!setup_.calls->all()[i].is_shared) continue;
    const cuda::CallPlace place = before_calls_[i];
    before_calls_.insert(before_calls_.end(), static_cast<size_t>(setup_.plan.ranks()), place);
  }
  memory_before_calls_ = cuda::DeviceMemory(most);
  for (cuda::CallPlace& place : before_calls_) place.address = memory_before_calls_.address();
  return before_calls_;
}

void RankStreams::begin_calls() {
  before_calls_.clear();
  memory_before_calls_ = {};
}

}  // namespace stretto::runtime

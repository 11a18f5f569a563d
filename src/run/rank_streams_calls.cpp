// Runs whose tensors are a call's: what stands for them is made the call's while it is enqueued.
#include <algorithm>

#include "run/rank_streams.h"

namespace stretto::runtime {

using cuda::DevicePtr;
using cuda::Stream;

CallSlots::Key RankStreams::begin_call(const Stream& main, bool is_captured) {
  CallSlots::Key key;
  const size_t tensors = setup_.calls->all().size();  // places on other ranks follow from these
  key.reserve(tensors * 3 + 4);
  for (const cuda::CallPlace& place : call_.places.first(tensors)) {
    key.insert(key.end(), {place.address, place.row_bytes, static_cast<uint64_t>(place.rows)});
  }
  if (call_memory_) call_.blob = call_memory_->find(main, key, call_.places, is_captured);
  copied_bytes_ += copied_in_call();
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

uint64_t RankStreams::copied_in_call() const {
  uint64_t bytes = 0;
  for (size_t i = 0; i < setup_.calls->all().size(); ++i) {
    const cuda::CallPlace& place = call_.places[i];
    if (!setup_.calls->all()[i].is_copied) continue;
    bytes += place.solid_bytes * static_cast<uint64_t>(place.rows);
  }
  return bytes;
}

void RankStreams::copy_tensors(const Stream& main, bool outputs, const RowsOfCall& rows) {
  for (size_t i = 0; i < setup_.calls->all().size(); ++i) {
    const CallTensors::Tensor& tensor = setup_.calls->all()[i];
    const cuda::CallPlace& place = call_.places[i];
    if (!tensor.is_copied || tensor.is_output != outputs || place.rows == 0) continue;
    const DevicePtr own = cuda::address_of(setup_.places, setup_.rank, tensor.buffer, 0);
    if (tensor.wants_solid_rows(rows.at != 0)) {
      copy_rows_->copy(main, own, place.address, place.solid_bytes, rows.at,
                       static_cast<int32_t>(place.rows));
      continue;
    }
    const auto num_rows = static_cast<uint64_t>(place.rows);
    const Buffer& buffer = setup_.plan.buffers[tensor.buffer];
    const auto width = static_cast<uint64_t>(buffer.cols_on(setup_.rank)) *
                       static_cast<uint64_t>(num_bytes(tensor.dtype));
    const uint64_t pitch = place.solid_bytes;
    cuda::enqueue_transfer(
        main, outputs
                  ? cuda::Transfer{own, place.address, pitch, place.row_bytes, width, num_rows}
                  : cuda::Transfer{place.address, own, place.row_bytes, pitch, width, num_rows});
  }
}

device::GemmParams RankStreams::at_call(device::GemmParams params, size_t kernel) const {
  if (!call_memory_) return params;
  const cuda::CallBlob::Gemm& own = call_memory_->blob().gemms()[kernel];
  params.maps = reinterpret_cast<const device::TensorMap*>(call_.blob + own.maps);
  params.num_maps = own.num_maps;
  params.acquired = reinterpret_cast<uint32_t*>(call_.blob + own.acquired);
  if (own.has_follows) {
    params.follows = reinterpret_cast<const device::GemmFollow*>(call_.blob + own.follows);
  }
  if (own.has_entries) {
    params.entries = reinterpret_cast<const device::GemmEntry*>(call_.blob + own.entries);
  }
  return params;
}

device::MoverParams RankStreams::at_call(device::MoverParams params, size_t kernel) const {
  if (!call_memory_) return params;
  params.regions = reinterpret_cast<const device::MoverRegion*>(
      call_.blob + call_memory_->blob().regions()[kernel]);
  return params;
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

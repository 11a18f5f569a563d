#include "calls/call_tensors.h"

#include <fmt/format.h>

#include <algorithm>

#include "launch/choice_rows.h"
#include "stretto/error.h"
#include "tables/call_lists.h"

namespace stretto::runtime {

CallTensors::CallTensors(const Plan& plan, const std::vector<bool>& shared, bool serves,
                         const SharedResults* results)
    : plan_(plan), results_(results) {
  const std::vector<bool> written = written_by_others(plan);
  const std::vector<bool> without_gaps = cuda::tensors_without_gaps(plan);
  const std::vector<bool> uneven = cuda::buffers_of_uneven_collectives(plan);
  const Operator fewer = serves ? with_rows(plan.op, 1) : plan.op;
  for (const CallerTensor& of : caller_tensors(plan.op)) {
    const stretto::Tensor& tensor = plan.op.tensor(of.tensor);
    const auto buffer = plan.find_buffer(tensor.name);
    STRETTO_ASSERT(buffer.has_value(), "a caller's tensor is a buffer of the plan");
    tensors_.push_back({tensor.name, *buffer, of.held, of.is_output, plan.buffers[*buffer].dtype,
                        cuda::rows_in_memory(plan, plan.buffers[*buffer]),
                        plan.buffers[*buffer].cols, fewer.tensor(of.tensor).rows != tensor.rows,
                        without_gaps[tensors_.size()], shared[*buffer]});
    tensors_.back().is_shared = results != nullptr && written[*buffer];
    tensors_.back().is_copied = (shared[*buffer] && !tensors_.back().is_shared) || uneven[*buffer];
  }
}

int64_t CallTensors::rows_of(const Tensor& tensor, int rank, int64_t rows) const {
  const Buffer& buffer = plan_.buffers[tensor.buffer];
  if (cuda::is_by_choice(buffer)) return cuda::rows_in_memory(plan_, buffer);
  if (!tensor.scales) return buffer.rows_on(rank);
  return tensor.held == Held::rows ? RowShards{rows, plan_.ranks()}.size(rank) : rows;
}

// Without gaps all rows lie as in memory of the plan's own, for which it was made. Numbers of
// another type than the operator's are read one by one, of whatever rows.
void CallTensors::require_aligned(const Tensor& tensor, const CallTensor& at,
                                  const cuda::CallPlace& place, bool is_solid) const {
  if (at.address % 16 != 0) {
    throw UsageError(fmt::format("tensor {} at {:#x}: it must begin at a multiple of 16 bytes",
                                 at.name, at.address));
  }
  if (place.rows <= 1 || place.row_bytes % 16 == 0) return;
  const bool is_as_planned = place.row_bytes == place.solid_bytes;
  if (is_solid && (is_as_planned || tensor.dtype != plan_.op.dtype)) return;
  const auto size = static_cast<uint64_t>(num_bytes(tensor.dtype));
  throw UsageError(
      fmt::format("rows of tensor {} begin {} elements apart: a multiple of {} is needed", at.name,
                  place.row_bytes / size, 16 / size));
}

std::vector<cuda::CallPlace> CallTensors::places(int rank, int64_t rows,
                                                 std::span<const CallTensor> given,
                                                 bool rows_in_memory) const {
  std::vector<cuda::CallPlace> places;
  places.reserve(tensors_.size());
  std::vector<CallTensor> ordered;
  const auto is_in_order = [&] {
    return std::equal(given.begin(), given.end(), tensors_.begin(), tensors_.end(),
                      [](const CallTensor& a, const Tensor& b) { return a.name == b.name; });
  };
  if (!is_in_order()) {
    ordered = resolve_call(plan_.op, given);
    given = ordered;
  }
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const Tensor& tensor = tensors_[i];
    const CallTensor& at = given[i];
    const auto size = static_cast<uint64_t>(num_bytes(tensor.dtype));
    const int64_t own_rows = rows_of(tensor, rank, rows);
    const int64_t cols = plan_.buffers[tensor.buffer].cols_on(rank);
    const int64_t stride = at.row_stride == 0 || own_rows <= 1 ? cols : at.row_stride;
    require_place(at, own_rows, cols);
    const cuda::CallPlace place{at.address, static_cast<uint64_t>(stride) * size,
                                static_cast<uint64_t>(tensor.cols) * size, own_rows};
    const bool has_gaps = stride != cols;
    require_aligned(tensor, at, place, !has_gaps);
    // A rank with fewer columns than the first has no rows that are moved as one piece.
    const bool is_narrow = cols != tensor.cols;
    if (has_gaps && tensor.without_gaps && !tensor.is_copied && !is_narrow) {
      throw UsageError(fmt::format(
          "rows of tensor {} begin {} elements apart and have {}: this schedule moves them as one "
          "piece; give it without gaps",
          at.name, stride, cols));
    }
    if ((has_gaps || cols != tensor.cols) && tensor.wants_solid_rows(rows_in_memory)) {
      throw UsageError(fmt::format(
          "rows of tensor {} have gaps, and memory says how many there are: give it without gaps",
          at.name));
    }
    places.push_back(place);
  }
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (tensors_[i].is_shared) add_shared(tensors_[i], rank, rows, places, i);
  }
  return places;
}

uint64_t CallTensors::row_bytes(size_t tensor, int rank) const {
  const Tensor& of = tensors_[tensor];
  return static_cast<uint64_t>(plan_.buffers[of.buffer].cols_on(rank)) *
         static_cast<uint64_t>(num_bytes(of.dtype));
}

uint64_t CallTensors::sum_of_shared(int rank, cuda::CallPlaces places, uint64_t before) const {
  uint64_t sum = before;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (!tensors_[i].is_shared) continue;
    const auto found = results_->find(rank, places[i].address, 1);
    STRETTO_ASSERT(found.has_value(), "a shared tensor's place was found before");
    for (const uint64_t value : {found->piece, found->offset, places[i].row_bytes}) {
      sum = (sum ^ (value + 1)) * 0x100000001b3;
    }
  }
  return sum;
}

// All ranks give the same place and as many columns, so where it is on the others follows.
void CallTensors::add_shared(const Tensor& tensor, int rank, int64_t rows,
                             std::vector<cuda::CallPlace>& to, size_t own) const {
  int64_t most = 0;
  for (int each = 0; each < plan_.ranks(); ++each)
    most = std::max(most, rows_of(tensor, each, rows));
  cuda::CallPlace place = to[own];
  const uint64_t bytes =
      most == 0 ? 0 : static_cast<uint64_t>(most - 1) * place.row_bytes + place.solid_bytes;
  const auto found = results_->find(rank, place.address, bytes);
  if (!found) {
    throw UsageError(fmt::format(
        "tensor {} of {} bytes at {:#x}: other ranks write it, so it must lie in memory of "
        "Context::allocate_shared(), or the operation be made without shared_results",
        tensor.name, bytes, place.address));
  }
  for (int each = 0; each < plan_.ranks(); ++each) {
    place.address = results_->address(*found, each, rank);
    place.rows = rows_of(tensor, each, rows);
    to.push_back(place);
  }
}

}  // namespace stretto::runtime

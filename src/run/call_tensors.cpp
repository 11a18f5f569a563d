#include "run/call_tensors.h"

#include <fmt/format.h>

#include <algorithm>

#include "stretto/error.h"
#include "tables/call_lists.h"

namespace stretto::runtime {

CallTensors::CallTensors(const Plan& plan, const std::vector<bool>& shared, bool serves)
    : plan_(plan) {
  const std::vector<bool> without_gaps = cuda::tensors_without_gaps(plan);
  const Operator fewer = serves ? with_rows(plan.op, 1) : plan.op;
  for (const CallerTensor& of : caller_tensors(plan.op)) {
    const stretto::Tensor& tensor = plan.op.tensor(of.tensor);
    const auto buffer = plan.find_buffer(tensor.name);
    STRETTO_ASSERT(buffer.has_value(), "a caller's tensor is a buffer of the plan");
    tensors_.push_back({tensor.name, *buffer, of.held, of.is_output, plan.buffers[*buffer].dtype,
                        plan.buffers[*buffer].rows, plan.buffers[*buffer].cols,
                        fewer.tensor(of.tensor).rows != tensor.rows, without_gaps[tensors_.size()],
                        shared[*buffer]});
  }
}

int64_t CallTensors::rows_of(const Tensor& tensor, int rank, int64_t rows) const {
  if (!tensor.scales) return plan_.buffers[tensor.buffer].rows_on(rank);
  return tensor.held == Held::rows ? RowShards{rows, plan_.ranks()}.size(rank) : rows;
}

// Tables and weights of rows, which have a type of their own, are read number by number.
void CallTensors::require_aligned(const Tensor& tensor, const CallTensor& at,
                                  const cuda::CallPlace& place) const {
  if (at.address % 16 != 0) {
    throw UsageError(fmt::format("tensor {} at {:#x}: it must begin at a multiple of 16 bytes",
                                 at.name, at.address));
  }
  const bool is_solid = place.row_bytes == place.solid_bytes;
  if (place.rows <= 1 || place.row_bytes % 16 == 0) return;
  if (is_solid && tensor.dtype != plan_.op.dtype) return;
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
    const int64_t stride = at.row_stride == 0 || own_rows <= 1 ? tensor.cols : at.row_stride;
    require_place(at, own_rows, tensor.cols);
    const cuda::CallPlace place{at.address, static_cast<uint64_t>(stride) * size,
                                static_cast<uint64_t>(tensor.cols) * size, own_rows};
    require_aligned(tensor, at, place);
    const bool has_gaps = stride != tensor.cols;
    if (has_gaps && tensor.without_gaps && !tensor.is_copied) {
      throw UsageError(fmt::format(
          "rows of tensor {} begin {} elements apart and have {}: this schedule moves them as one "
          "piece; give it without gaps",
          at.name, stride, tensor.cols));
    }
    if (has_gaps && tensor.wants_solid_rows(rows_in_memory)) {
      throw UsageError(fmt::format(
          "rows of tensor {} have gaps, and memory says how many there are: give it without gaps",
          at.name));
    }
    places.push_back(place);
  }
  return places;
}

}  // namespace stretto::runtime

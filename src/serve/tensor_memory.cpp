#include <fmt/format.h>

#include <algorithm>

#include "stretto/context.h"
#include "stretto/error.h"

namespace stretto {

TensorMemory::TensorMemory(Context& context, const Operation& operation)
    : first_rank_(context.first_rank()), names_(operation.tensors()) {
  const Operator op = operation.at(operation.room());
  const std::vector<CallerTensor> tensors = caller_tensors(op);
  for (int i = 0; i < context.num_local(); ++i) {
    const int rank = first_rank_ + i;
    auto& of_rank = tensors_.emplace_back();
    for (size_t t = 0; t < tensors.size(); ++t) {
      const Slice slice = slice_of(op, tensors[t].tensor, tensors[t].held, rank);
      const auto elements = static_cast<size_t>(slice.rows() * slice.cols());
      const size_t bytes =
          elements * static_cast<size_t>(num_bytes(op.tensor(tensors[t].tensor).dtype));
      of_rank.push_back({names_[t], context.allocate(rank, std::max<size_t>(bytes, 16))});
    }
  }
}

GpuAddress TensorMemory::at(int rank, std::string_view tensor) const {
  for (const CallTensor& one : of(rank)) {
    if (one.name == tensor) return one.address;
  }
  throw UsageError(fmt::format("unknown tensor {}; known: {}", tensor, fmt::join(names_, ", ")));
}

std::span<const CallTensor> TensorMemory::of(int rank) const {
  const auto local = static_cast<size_t>(rank - first_rank_);
  if (rank < first_rank_ || local >= tensors_.size()) {
    throw UsageError(fmt::format("rank {} is not of this process, which has {} to {}", rank,
                                 first_rank_, first_rank_ + static_cast<int>(tensors_.size()) - 1));
  }
  return tensors_[local];
}

}  // namespace stretto

#include "emu/shared_reference.h"

#include <algorithm>

#include "core/parallel.h"
#include "tasks/elements.h"

namespace stretto {

std::shared_ptr<SharedReference> make_shared_reference(int64_t max_bytes) {
  return std::make_shared<SharedReference>(max_bytes);
}

void SharedReference::forget_other(const Operator& op) {
  if (op_.text && op == op_) return;
  op_ = op;
  num_bytes_ = 0;
  inputs_.clear();
  expected_.clear();
}

SharedReference::Bytes SharedReference::input(const Operator& op, const InputData& data, int tensor,
                                              int rank) {
  forget_other(op);
  const auto key = std::tuple(key_of(data), tensor, rank);
  if (const auto found = inputs_.find(key); found != inputs_.end()) return found->second;

  const Slice slice = slice_of(op, tensor, op.tensor(tensor).held, rank);
  const auto cols = static_cast<size_t>(slice.cols());
  const DType dtype = op.tensor(tensor).dtype;
  const Held held = op.tensor(tensor).held;
  const size_t row_bytes = cols * static_cast<size_t>(stretto::num_bytes(dtype));
  auto bytes =
      std::make_shared<std::vector<std::byte>>(static_cast<size_t>(slice.rows()) * row_bytes);
  constexpr int64_t kRowsAtATime = 64;
  const auto parts = static_cast<size_t>((slice.rows() + kRowsAtATime - 1) / kRowsAtATime);
  // A thread is worth its start for a million elements.
  const size_t threads = 1 + (static_cast<size_t>(slice.rows()) * cols >> 20);
  for_each_in_parallel(parts, threads, [&](size_t part) {
    const int64_t first = static_cast<int64_t>(part) * kRowsAtATime;
    const int64_t last = std::min(first + kRowsAtATime, slice.rows());
    std::vector<float> line(cols);
    for (int64_t row = first; row < last; ++row) {
      const int64_t global = row_of_slice(op, tensor, held, slice, row);
      fill_tensor(op, data, tensor, global, slice.col0, line);
      std::byte* const to = bytes->data() + static_cast<size_t>(row) * row_bytes;
      if (const auto owner = rank_of_choice(op, data, tensor, global); owner && *owner != rank) {
        tasks::fill_poison(dtype, to, cols);  // whoever reads it is found out
        continue;
      }
      tasks::round_elements(dtype, line.data(), to, cols);  // exact: they have that type already
    }
  });
  const auto size = static_cast<int64_t>(bytes->size());
  if (num_bytes_ + size <= max_bytes_) {
    num_bytes_ += size;
    inputs_[key] = bytes;
  }
  return bytes;
}

SharedReference::Expected SharedReference::expected(const Operator& op, const InputData& data,
                                                    const Roundings& roundings, int64_t row0,
                                                    int64_t row1) {
  forget_other(op);
  const auto key =
      std::tuple(key_of(data), roundings.partials, roundings.roundings, roundings.kept, row0, row1);
  if (const auto found = expected_.find(key); found != expected_.end()) return found->second;

  auto outputs = std::make_shared<const std::vector<ExpectedRows>>(
      expected_outputs(op, data, roundings, row0, row1));
  int64_t size = 0;
  for (const ExpectedRows& rows : *outputs) {
    size += static_cast<int64_t>(rows.values.size() * 2 * sizeof(double));
  }
  if (num_bytes_ + size <= max_bytes_) {
    num_bytes_ += size;
    expected_[key] = outputs;
  }
  return outputs;
}

}  // namespace stretto

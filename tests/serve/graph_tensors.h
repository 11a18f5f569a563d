// Tensors of whole graphs on GPUs: their inputs, and what is wrong in their results.
#pragma once

#include <cmath>
#include <cstring>
#include <vector>

#include "serve/integer_tensors.h"
#include "stretto/context.h"

namespace stretto {

inline float value_of(uint16_t bits) {
  const uint32_t word = uint32_t{bits} << 16;
  float value = 0;
  std::memcpy(&value, &word, sizeof(value));
  return value;
}

inline void write_inputs(Context& context, const Operator& op, const TensorMemory& memory,
                         const InputData& data) {
  for (const CallerTensor& one : caller_tensors(op)) {
    const Tensor& tensor = op.tensor(one.tensor);
    for (int rank = 0; rank < op.ranks && !one.is_output; ++rank) {
      const Slice slice = slice_of(op, one.tensor, one.held, rank);
      std::vector<float> line(static_cast<size_t>(slice.cols()));
      std::vector<uint16_t> bits;
      std::vector<int32_t> numbers;
      for (int64_t row = 0; row < slice.rows(); ++row) {
        fill_tensor(op, data, one.tensor, row_of_slice(op, one.tensor, one.held, slice, row),
                    slice.col0, line);
        const std::vector<uint16_t> of_row = runtime::bf16_of(line);
        bits.insert(bits.end(), of_row.begin(), of_row.end());
        for (const float value : line) numbers.push_back(static_cast<int32_t>(value));
      }
      const bool counts = tensor.dtype == DType::i32;
      const void* const from = counts ? static_cast<const void*>(numbers.data()) : bits.data();
      context.copy_to_gpu(rank, memory.at(rank, tensor.name), from,
                          numbers.size() * static_cast<size_t>(num_bytes(tensor.dtype)));
    }
  }
}

inline int64_t wrong_elements(Context& context, const Operator& op, const TensorMemory& memory,
                              const InputData& data) {
  const auto expected = expected_outputs(op, data, {op.dtype, op.ranks}, 0, op.rows());
  int64_t wrong = 0;
  for (size_t i = 0; i < op.outputs.size(); ++i) {
    const auto& [tensor, held] = op.outputs[i];
    for (int rank = 0; rank < op.ranks; ++rank) {
      const Slice slice = slice_of(op, tensor, held, rank);
      std::vector<uint16_t> out(static_cast<size_t>(slice.rows() * slice.cols()));
      context.copy_from_gpu(rank, out.data(), memory.at(rank, op.tensor(tensor).name),
                            out.size() * 2);
      for (int64_t row = slice.row0; row < slice.row1; ++row) {
        for (int64_t col = slice.col0; col < slice.col1; ++col) {
          const auto at = static_cast<size_t>((row - slice.row0) * slice.cols() + col - slice.col0);
          const double off = std::fabs(value_of(out[at]) - expected[i].value(row, col));
          wrong += !(off <= expected[i].bound(row, col));
        }
      }
    }
  }
  return wrong;
}

}  // namespace stretto

// Inputs of small integers as the bits of bf16, and how many elements of a result are not what the
// reference says.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "stretto/reference.h"

namespace stretto::runtime {

inline std::vector<uint16_t> bf16_of(const std::vector<float>& values) {
  std::vector<uint16_t> bits;
  for (const float value : values) {
    uint32_t word = 0;
    std::memcpy(&word, &value, sizeof(word));
    bits.push_back(static_cast<uint16_t>(word >> 16));
  }
  return bits;
}

inline std::vector<uint16_t> input_bits(const Segment& op, uint64_t seed, Input input, int rank) {
  const Slice slice = input_slice(op, input, rank);
  const auto cols = static_cast<size_t>(slice.cols());
  std::vector<float> values(static_cast<size_t>(slice.rows()) * cols);
  for (int64_t row = 0; row < slice.rows(); ++row) {
    fill_input(op, {Fill::integers, seed}, input, slice.row0 + row, slice.col0,
               std::span(values).subspan(static_cast<size_t>(row) * cols, cols));
  }
  return bf16_of(values);
}

inline size_t output_elements(const Segment& op, int rank) {
  const Slice slice = output_slice(op, rank);
  return static_cast<size_t>(slice.rows() * slice.cols());
}

// -0 and 0 are the same number.
inline int64_t wrong_elements(const Segment& op, uint64_t seed, int rank,
                              const std::vector<uint16_t>& out) {
  const Slice slice = output_slice(op, rank);
  const ExpectedRows expected =
      expected_rows(op, {Fill::integers, seed}, {}, slice.row0, slice.row1);
  std::vector<float> right;
  for (int64_t row = slice.row0; row < slice.row1; ++row) {
    for (int64_t col = slice.col0; col < slice.col1; ++col) {
      right.push_back(static_cast<float>(expected.value(row, col)));
    }
  }
  const auto bits = bf16_of(right);
  int64_t wrong = 0;
  for (size_t i = 0; i < bits.size(); ++i) {
    wrong += bits[i] != out.at(i) && !(bits[i] == 0 && out[i] == 0x8000);
  }
  return wrong;
}

}  // namespace stretto::runtime

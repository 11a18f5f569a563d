#include "lower/run_memory.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "stretto/reference.h"

namespace stretto {
namespace {

constexpr float kPoison = std::numeric_limits<float>::quiet_NaN();

// Global inputs: small integers that hang on matrix, row and column.
float input_at(int matrix, int64_t row, int64_t col) {
  uint64_t h = static_cast<uint64_t>(row) * 0x9E3779B97F4A7C15u +
               static_cast<uint64_t>(col) * 0xC2B2AE3D27D4EB4Fu + static_cast<uint64_t>(matrix);
  h = (h ^ (h >> 29)) * 0xBF58476D1CE4E5B9u;
  return static_cast<float>(static_cast<int>((h >> 33) % 5) - 2);
}

}  // namespace

RunMemory::RunMemory(const Draft& draft, RunFaults& faults)
    : plan_(draft.plan), op_(*draft.op.only_product()), faults_(faults) {
  for (const Buffer& buffer : plan_.buffers) {
    for (int rank = 0; rank < plan_.ranks(); ++rank) {
      Instance& m = memory_.emplace_back();
      m.rows = buffer.rows_on(rank);
      m.cols = buffer.cols;
      m.values.assign(static_cast<size_t>(m.rows * m.cols), kPoison);
      m.writes.assign(m.values.size(), 0);
      if (buffer.role == BufferRole::input) fill_input(m, buffer.name, rank);
    }
  }
}

void RunMemory::fill_input(Instance& m, const std::string& name, int rank) const {
  const bool is_a = name == "a";
  const Slice slice = input_slice(op_, is_a ? Input::a : Input::b, rank);
  const int64_t row0 = slice.row0, col0 = slice.col0;
  for (int64_t r = 0; r < m.rows; ++r) {
    for (int64_t c = 0; c < m.cols; ++c) {
      m.values[static_cast<size_t>(r * m.cols + c)] = input_at(is_a ? 1 : 2, row0 + r, col0 + c);
    }
  }
}

RunMemory::Instance& RunMemory::instance(const Region& region) {
  return memory_[static_cast<size_t>(region.buffer) * static_cast<size_t>(plan_.ranks()) +
                 region.rank];
}

bool RunMemory::is_inside(const Region& region) {
  const Instance& m = instance(region);
  const bool good =
      region.row0 >= 0 && region.col0 >= 0 && region.row1 <= m.rows && region.col1 <= m.cols;
  if (!good) faults_.add(describe(plan_, region) + " is outside its buffer");
  return good;
}

void RunMemory::load(const Region& region, std::vector<float>& values) {
  if (region.empty() || !is_inside(region)) return;
  const Instance& m = instance(region);
  const size_t first = values.size();
  for (int64_t r = region.row0; r < region.row1; ++r) {
    const auto row = m.values.begin() + (r * m.cols + region.col0);
    values.insert(values.end(), row, row + region.cols());
  }
  if (std::any_of(values.begin() + static_cast<std::ptrdiff_t>(first), values.end(),
                  [](float value) { return std::isnan(value); })) {
    faults_.add("poison in " + describe(plan_, region));
  }
}

void RunMemory::store(const Region& region, std::span<const float> values) {
  if (region.empty() || !is_inside(region)) return;
  if (values.size() != static_cast<size_t>(region.elements())) return faults_.add("shapes differ");
  Instance& m = instance(region);
  size_t i = 0;
  for (int64_t r = region.row0; r < region.row1; ++r) {
    for (int64_t c = region.col0; c < region.col1; ++c) {
      const auto to = static_cast<size_t>(r * m.cols + c);
      m.values[to] = values[i++];
      if (m.writes[to] < UINT8_MAX) ++m.writes[to];
    }
  }
}

void RunMemory::verify() {
  // out = A * B^T, element by element from the global inputs.
  std::vector<float> a, b, expected;
  for (int64_t r = 0; r < op_.m; ++r) {
    for (int64_t i = 0; i < op_.k; ++i) a.push_back(input_at(1, r, i));
  }
  for (int64_t c = 0; c < op_.n; ++c) {
    for (int64_t i = 0; i < op_.k; ++i) b.push_back(input_at(2, c, i));
  }
  for (int64_t r = 0; r < op_.m; ++r) {
    for (int64_t c = 0; c < op_.n; ++c) {
      float sum = 0;
      for (int64_t i = 0; i < op_.k; ++i) {
        sum += a[static_cast<size_t>(r * op_.k + i)] * b[static_cast<size_t>(c * op_.k + i)];
      }
      expected.push_back(sum);
    }
  }
  const uint16_t out = plan_.find_buffer("out").value();
  for (int rank = 0; rank < plan_.ranks(); ++rank) {
    const Instance& m = instance({0, 0, 0, 0, out, static_cast<uint16_t>(rank)});
    const Slice slice = output_slice(op_, rank);
    const int64_t row0 = slice.row0, col0 = slice.col0;
    if (m.rows != slice.rows() || m.cols != slice.cols()) faults_.add("out has a wrong shape");
    for (int64_t r = 0; r < m.rows && faults_.empty(); ++r) {
      for (int64_t c = 0; c < m.cols && faults_.empty(); ++c) {
        const auto i = static_cast<size_t>(r * m.cols + c);
        const float right = expected[static_cast<size_t>((row0 + r) * op_.n + col0 + c)];
        if (m.writes[i] == 1 && m.values[i] == right) continue;
        faults_.add("rank " + std::to_string(rank) + " out[" + std::to_string(r) + "," +
                    std::to_string(c) + "] is " + std::to_string(m.values[i]) + " for " +
                    std::to_string(right) + ", written " + std::to_string(m.writes[i]) + " times");
      }
    }
  }
}

}  // namespace stretto

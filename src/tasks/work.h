// What a kind's definition is given: views of what is read, and a place for the result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "stretto/task_kind.h"
#include "tasks/tile_gemm.h"

namespace stretto::tasks {

// A region that is read. Those with the result's rows hold the rows that are asked for; stacked
// ones what they have of them, which may be nothing.
struct Operand {
  MatrixView view;
  int64_t rows = 0, cols = 0;

  const void* row(int64_t row) const {
    return static_cast<const std::byte*>(view.data) + row * view.stride * num_bytes(view.dtype);
  }
};

// Memory that is kept from task to task; one object a thread.
struct Scratch {
  TileGemm gemm;
  std::vector<float> sums, line;
  std::vector<std::byte> bytes;
  std::vector<int32_t> numbers, more_numbers;
};

struct Work {
  std::span<const Operand> reads;
  int64_t rows = 0, cols = 0;  // of the result that are asked for
  MutableMatrixView to;        // rounded to its type
  float attribute = 0;         // the number that the kind needs
  Scratch& scratch;
  int64_t first = 0;  // row of the result that is the first of those
  // What tasks of tables ask of their place in the plan.
  KindOperands operands = {};
  int rank = 0;
  // Where numbers are counted that name nothing, and are not -1; null: nobody counts.
  int64_t* bad_ids = nullptr;

  void* row(int64_t row) const {
    return static_cast<std::byte*>(to.data) + row * to.stride * num_bytes(to.dtype);
  }
};

}  // namespace stretto::tasks

// Where the rows of the matrix that travels lie in storage.
//
// Collectives want what they move at once to be contiguous, so a matrix that they move chunk by
// chunk is stored [chunk][owner][rows of the owner in the chunk]. Everything else keeps the
// matrix's own order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "stretto/segment.h"

namespace stretto {

// Storage rows [row0, row1) hold matrix rows [matrix_row, ...), all of one owner and one chunk.
struct RowSegment {
  int32_t row0 = 0, row1 = 0;
  int32_t matrix_row = 0;
  int32_t owner = 0;
  int32_t chunk = 0;
};

// Tiles do not cross the edges of a chunk.
struct RowChunk {
  int32_t row0 = 0, row1 = 0;
  bool operator==(const RowChunk&) const = default;
};

struct RowLayout {
  std::vector<RowSegment> segments;  // ascending storage rows; none is empty
  std::vector<RowChunk> chunks;      // the same
  bool is_matrix_order = false;      // storage row i is matrix row i

  // Calls visit(matrix_row0, matrix_row1) for the runs of matrix rows, each as long as possible,
  // that storage rows [row0, row1) hold, in storage order.
  template <typename Visit>
  void for_each_run(int32_t row0, int32_t row1, const Visit& visit) const;
};

// The matrix's own order, one chunk.
RowLayout plain_rows(const RowShards& shards);
// The matrix's own order; every shard is a row of chunks cut at `cuts` (see cut_rows).
RowLayout chunked_shards(const RowShards& shards, const std::vector<int32_t>& cuts);
// Chunk c holds the rows between cuts c and c + 1 of every shard, shard by shard.
RowLayout interleaved_chunks(const RowShards& shards, const std::vector<int32_t>& cuts);

// Cuts `rows` in proportion to `weights`: {0, ..., rows}, strictly ascending. Inner cuts are
// multiples of `unit` when every part can have one; parts without a row are left out.
std::vector<int32_t> cut_rows(int32_t rows, const std::vector<int>& weights, int32_t unit);

template <typename Visit>
void RowLayout::for_each_run(int32_t row0, int32_t row1, const Visit& visit) const {
  if (is_matrix_order) {
    row1 = std::min(row1, segments.empty() ? 0 : segments.back().row1);
    if (row0 < row1) visit(row0, row1);
    return;
  }
  auto segment = std::upper_bound(segments.begin(), segments.end(), row0,
                                  [](int32_t row, const RowSegment& s) { return row < s.row1; });
  int32_t run0 = 0, run1 = 0;  // matrix rows
  for (; segment != segments.end() && segment->row0 < row1; ++segment) {
    const int32_t first = std::max(row0, segment->row0), last = std::min(row1, segment->row1);
    const int32_t matrix_row = segment->matrix_row + first - segment->row0;
    if (matrix_row != run1 || run0 == run1) {
      if (run0 < run1) visit(run0, run1);
      run0 = matrix_row;
    }
    run1 = matrix_row + last - first;
  }
  if (run0 < run1) visit(run0, run1);
}

}  // namespace stretto

#include "lower/row_layout.h"

#include <numeric>

namespace stretto {
namespace {

// Appends the rows between `cut0` and `cut1` of an owner's shard at the end of the storage.
void append(RowLayout& layout, const RowShards& shards, int owner, int32_t cut0, int32_t cut1) {
  const auto size = static_cast<int32_t>(shards.size(owner));
  cut1 = std::min(cut1, size);
  if (cut0 >= cut1) return;
  const int32_t row0 = layout.segments.empty() ? 0 : layout.segments.back().row1;
  layout.segments.push_back({row0, row0 + cut1 - cut0,
                             static_cast<int32_t>(shards.begin(owner)) + cut0, owner,
                             static_cast<int32_t>(layout.chunks.size())});
}

// Ends the chunk that the segments since the last one make up.
void close_chunk(RowLayout& layout) {
  const int32_t row0 = layout.chunks.empty() ? 0 : layout.chunks.back().row1;
  const int32_t row1 = layout.segments.empty() ? 0 : layout.segments.back().row1;
  if (row0 < row1) layout.chunks.push_back({row0, row1});
}

}  // namespace

RowLayout plain_rows(const RowShards& shards) {
  RowLayout layout = interleaved_chunks(shards, {0, static_cast<int32_t>(shards.block())});
  layout.is_matrix_order = true;
  return layout;
}

RowLayout chunked_shards(const RowShards& shards, const std::vector<int32_t>& cuts) {
  RowLayout layout;
  layout.is_matrix_order = true;
  for (int owner = 0; owner < shards.ranks; ++owner) {
    for (size_t c = 0; c + 1 < cuts.size(); ++c) {
      append(layout, shards, owner, cuts[c], cuts[c + 1]);
      close_chunk(layout);
    }
  }
  return layout;
}

RowLayout interleaved_chunks(const RowShards& shards, const std::vector<int32_t>& cuts) {
  RowLayout layout;
  for (size_t c = 0; c + 1 < cuts.size(); ++c) {
    for (int owner = 0; owner < shards.ranks; ++owner) {
      append(layout, shards, owner, cuts[c], cuts[c + 1]);
    }
    close_chunk(layout);
  }
  return layout;
}

std::vector<int32_t> cut_rows(int32_t rows, const std::vector<int>& weights, int32_t unit) {
  const int64_t total = std::accumulate(weights.begin(), weights.end(), int64_t{0});
  const bool enough = rows / unit >= static_cast<int64_t>(weights.size());
  std::vector<int32_t> cuts{0};
  int64_t sum = 0;
  for (const int weight : weights) {
    sum += weight;
    const auto exact = static_cast<int32_t>((rows * sum + total - 1) / total);
    const int32_t aligned = (exact + unit / 2) / unit * unit;
    const bool inner = exact < rows && aligned < rows;
    const int32_t cut = enough && inner && aligned > cuts.back() ? aligned : exact;
    if (cut > cuts.back()) cuts.push_back(cut);
  }
  return cuts;
}

}  // namespace stretto

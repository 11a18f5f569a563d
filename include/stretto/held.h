// Held: which part of a tensor each rank has. edge.h has the ways from one to another.
#pragma once

#include <cstdint>
#include <string_view>

namespace stretto {

// X(enumerator, text, meaning)
#define STRETTO_HELDS(X)                                                     \
  X(whole, "whole", "every rank has all of it")                              \
  X(rows, "rows", "every rank has a block of rows")                          \
  X(cols, "cols", "every rank has a block of columns")                       \
  X(partial, "partial", "every rank has a term of the sum")                  \
  X(experts, "experts", "every rank has a block of the matrices of a stack") \
  X(routed, "routed", "rows are where a table says that a run makes")

#define STRETTO_ENUM(name, ...) name,
enum class Held : uint8_t { STRETTO_HELDS(STRETTO_ENUM) };
#undef STRETTO_ENUM

std::string_view to_string(Held held);

// Contiguous blocks of ceil(rows/ranks) rows; the last blocks may be short or empty.
struct RowShards {
  int64_t rows = 0;
  int ranks = 1;

  int64_t block() const { return (rows + ranks - 1) / ranks; }
  int64_t begin(int rank) const { return rank * block() < rows ? rank * block() : rows; }
  int64_t end(int rank) const { return begin(rank + 1); }
  int64_t size(int rank) const { return end(rank) - begin(rank); }
  int owner(int64_t row) const { return static_cast<int>(row / block()); }
};

// Contiguous blocks of columns, alike where the ranks divide them. Else they are of whole steps, 16
// bytes, which GPUs load at once, and the last one is shorter. Ranks share no columns of a unit.
struct ColShards {
  int64_t cols = 0;
  int ranks = 1;
  int64_t step = 1, unit = 1;  // elements

  bool are_even() const { return cols % (ranks * unit) == 0; }
  int64_t block() const {
    const int64_t least = (cols + ranks - 1) / ranks;
    return are_even() ? least : (least + step - 1) / step * step;
  }
  int64_t begin(int rank) const { return rank * block() < cols ? rank * block() : cols; }
  int64_t end(int rank) const { return begin(rank + 1); }
  int64_t size(int rank) const { return end(rank) - begin(rank); }
  int owner(int64_t col) const { return static_cast<int>(col / block()); }
  // Where they do not, a rank would have none, or a part of a unit.
  bool fit() const { return size(ranks - 1) > 0 && cols % unit == 0; }
  bool operator==(const ColShards&) const = default;
};

// Largest size of a dimension and of one tensor (elements); keeps all index arithmetic exact.
inline constexpr int64_t kMaxDim = int64_t{1} << 30;
inline constexpr int64_t kMaxElements = int64_t{1} << 40;
inline constexpr int kMaxRanks = 1024;

}  // namespace stretto

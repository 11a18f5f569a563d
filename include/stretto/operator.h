// Operator: what is computed, with global sizes, element type, ranks, and who owns which shard.
//
// Notation (M, N, K global, R ranks, row-major everywhere; weights [N, K] as in a PyTorch linear):
//   ag-gemm   rank r holds a = own rows of A [M, K] and b [N/R, K];  out [M, N/R]
//   gemm-rs   rank r holds a [M, K/R] and b [N, K/R];  out = own rows of the sum over ranks [M, N]
//   gemm-ar   the same inputs;                         out [M, N] on every rank
// Own rows of rank r: contiguous block r of ceil(M/R) rows; the last blocks may be short or empty.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stretto/dtype.h"

namespace stretto {

// X(enumerator, text name, one-line description)
#define STRETTO_OPERATORS(X)                                                    \
  X(ag_gemm, "ag-gemm", "all-gather of A's rows, then GEMM: out[M, N/R]")       \
  X(gemm_rs, "gemm-rs", "GEMM, then reduce-scatter by rows: out[ceil(M/R), N]") \
  X(gemm_ar, "gemm-ar", "GEMM, then all-reduce: out[M, N] on every rank")

enum class OpKind : uint8_t {
#define STRETTO_ENUM(name, text, description) name,
  STRETTO_OPERATORS(STRETTO_ENUM)
#undef STRETTO_ENUM
};

std::string_view to_string(OpKind kind);
std::optional<OpKind> op_kind_from(std::string_view text);

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

struct Operator {
  OpKind kind = OpKind::gemm_rs;
  int64_t m = 0, n = 0, k = 0;  // global sizes
  int ranks = 1;
  DType dtype = DType::bf16;

  RowShards row_shards() const { return {m, ranks}; }
  // The GEMM that every rank computes: local_m() x local_n(), summed over local_k().
  int64_t local_m() const { return m; }
  int64_t local_n() const { return kind == OpKind::ag_gemm ? n / ranks : n; }
  int64_t local_k() const { return kind == OpKind::ag_gemm ? k : k / ranks; }
  bool reduces() const { return kind != OpKind::ag_gemm; }

  bool operator==(const Operator&) const = default;
};

// Largest size of a dimension and of one tensor (elements); keeps all index arithmetic exact.
inline constexpr int64_t kMaxDim = int64_t{1} << 30;
inline constexpr int64_t kMaxElements = int64_t{1} << 40;
inline constexpr int kMaxRanks = 1024;

// Every reason why the operator cannot be served, each with what would be right; empty when fine.
std::vector<std::string> problems(const Operator& op);
// Throws UsageError with all problems when there is one.
void validate(const Operator& op);

// What a text may leave out.
struct OperatorDefaults {
  std::optional<int> ranks = {};
  std::optional<DType> dtype = {};
};

// "gemm-rs m=2048 n=1024 k=4096 ranks=8 dtype=bf16"; parse is the inverse (throws UsageError).
std::string to_string(const Operator& op);
Operator parse_operator(std::string_view text, const OperatorDefaults& absent = {});

// Bytes that leave one rank at least, per direction (wire in the operator's dtype).
double link_bytes(const Operator& op);
double flops_per_rank(const Operator& op);

}  // namespace stretto

// Segment: one product of an operator, and the edges that feed and drain it: what one schedule is
// for. An operator of one product is one segment.
//
// Notation (M, N, K global, R ranks, row-major everywhere; weights [N, K] as in a PyTorch linear):
//   ag-gemm   rank r holds a = own rows of A [M, K] and b [N/R, K];  out [M, N/R]
//   gemm-rs   rank r holds a [M, K/R] and b [N, K/R];  out = own rows of the sum over ranks [M, N]
//   gemm-ar   the same inputs;                         out [M, N] on every rank
//   col-gemm  rank r holds all of A and b [N/R, K];    out [M, N/R]
//   gemm-a2a  rank r holds a = own rows of A and all of B;  out [M, N/R]
//   a2a-gemm  rank r holds a [M, K/R] and all of B;    out = own rows [.., N]
// Own rows of rank r: contiguous block r of ceil(M/R) rows; the last blocks may be short or empty.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stretto/dtype.h"
#include "stretto/edge.h"

namespace stretto {

struct Segment {
  ProductKind kind = kGemmRs;
  int64_t m = 0, n = 0, k = 0;  // global sizes
  int ranks = 1;
  DType dtype = DType::bf16;
  // Weights whose products are computed tile beside tile and become one result: 2 for a gated
  // activation, whose tiles are half as wide. 0: nothing is multiplied: rows of choices are moved
  // to their experts as they are, or a matrix to where a product that is another segment needs it.
  int weights = 1;
  // Each of `top_k` choices of a row takes a matrix of its own, of a stack of so many; 0: there is
  // one matrix for all. Then the results have a row for every choice.
  int64_t experts = 0, top_k = 1;
  // No product, but pooled look-ups: N columns of so many tables, up to K rows of each of which are
  // added up to a row of the result; 0: there are none.
  int64_t tables = 0;
  // Every rank has all of A and the whole weight, and multiplies all rows: a router's product of
  // tokens that all ranks have, for example.
  bool on_every_rank = false;
  // So many teams of these ranks do the same: M are the rows of one, and each has all of the
  // weight.
  int teams = 1;

  bool is_routed() const { return experts > 0; }
  bool only_moves() const { return weights == 0; }
  // A product of which something may be known alone.
  bool has_name() const { return is_dense() && !only_moves() && kind.has_name(); }
  bool looks_up() const { return tables > 0; }
  // One matrix multiplies all rows.
  bool is_dense() const { return !is_routed() && !looks_up(); }
  RowShards row_shards() const { return {m, ranks}; }
  // The GEMM that every rank computes: local_m() x local_n(), summed over local_k().
  // The last ranks may have fewer rows, where each has its own.
  int64_t local_m() const { return multiplies_own_rows() ? row_shards().block() : m; }
  // And fewer columns, where those of ranks differ: these are of the first.
  int64_t local_n() const { return kind.weight == Held::rows ? shares_of(n).block() : n; }
  int64_t local_k() const { return kind.weight == Held::cols ? shares_of(k).block() : k; }
  ColShards shares_of(int64_t cols) const { return {cols, ranks, 16 / num_bytes(dtype)}; }
  // Columns that a rank multiplies for: of all its weights.
  int64_t product_cols() const { return local_n() * weights; }
  // Every rank's product is a term of a sum.
  bool makes_terms() const { return kind.weight == Held::cols; }
  // Every rank has the whole weight, and multiplies its own rows only.
  bool multiplies_own_rows() const { return kind.weight == Held::whole && !on_every_rank; }
  bool gathers() const { return kind.in == Edge::gather; }
  // What others have as well is added to it, and all ranks get the sums.
  bool adds_for_all() const { return kind_of(kind.out).adds && kind_of(kind.out).reaches_all; }
  // Every rank has a part for every other: of the input, or of the result.
  bool exchanges_input() const { return kind_of(kind.in).exchanges; }
  bool exchanges_output() const { return kind_of(kind.out).exchanges; }
  bool exchanges() const { return exchanges_input() || exchanges_output(); }
  // What ranks exchange is columns of all rows on one side, of what they move or make, and own rows
  // on the other.
  bool turns_columns() const { return exchanges() && kind.weight == Held::rows; }
  // Tiles are made before they are sent, not after.
  bool sends_tiles() const {
    const EdgeKind& behind = kind_of(kind.out);
    return makes_terms() || (behind.drains && !behind.goes_by_ids);
  }
  // Ranks have blocks of the rows of what they begin or end with.
  bool owns_rows() const {
    return gathers() || kind.out == Edge::reduce_scatter || multiplies_own_rows() ||
           turns_columns();
  }
  bool communicates() const { return kind.in != Edge::none || kind.out != Edge::none; }

  bool operator==(const Segment&) const = default;
};

// Every reason why the segment cannot be served, each with what would be right; empty when fine.
std::vector<std::string> problems(const Segment& op);
// Throws UsageError with all problems when there is one.
void validate(const Segment& op);

// What a text may leave out.
struct SegmentDefaults {
  std::optional<int> ranks = {};
  std::optional<DType> dtype = {};
};

// "gemm-rs m=2048 n=1024 k=4096 ranks=8 dtype=bf16"; parse is the inverse (throws UsageError).
std::string to_string(const Segment& op);
Segment parse_segment(std::string_view text, const SegmentDefaults& absent = {});

// Bytes that leave one rank at least, per direction (wire in the segment's dtype).
double link_bytes(const Segment& op);
double flops_per_rank(const Segment& op);

}  // namespace stretto

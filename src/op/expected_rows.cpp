#include <algorithm>
#include <cmath>

#include "core/ceil_div.h"
#include "op/dot_rows.h"
#include "op/error_bound.h"
#include "op/integer_input.h"
#include "stretto/error.h"
#include "stretto/reference.h"

namespace stretto {
namespace {

// One block's sums and both packed operands stay in the L2 cache.
constexpr int64_t kBlockRows = 256;
constexpr int64_t kBlockCols = 512;
constexpr int64_t kBlockTerms = 256;

void expect_integers(const Segment& op, const InputData& data, ExpectedRows& out) {
  std::vector<uint64_t> b_keys(static_cast<size_t>(op.n));
  for (int64_t j = 0; j < op.n; ++j) {
    b_keys[static_cast<size_t>(j)] = hash_row(data.seed, Input::b, j);
  }
  std::vector<Nonzero> nonzeros(static_cast<size_t>(num_nonzeros(op.k)));
  for (int64_t row = out.row0; row < out.row1; ++row) {
    const uint64_t key = hash_row(data.seed, Input::a, row);
    for (size_t i = 0; i < nonzeros.size(); ++i) {
      nonzeros[i] = nonzero_of_a(key, op.k, static_cast<int>(i));
    }
    for (int64_t j = 0; j < op.n; ++j) {
      int sum = 0;
      for (const Nonzero& a : nonzeros) {
        sum += a.value * integer_of_b(b_keys[static_cast<size_t>(j)], a.col);
      }
      out.values[out.index(row, j)] = sum;
    }
  }
}

// Rows [row0, row1) of an input, columns [col0, col0 + cols), in panels of kPanel rows with the
// rows of a panel side by side. Rows beyond row1 are zero. Adds each row's squares to `squares`.
template <int kPanel>
void pack(const Segment& op, const InputData& data, Input input, int64_t row0, int64_t row1,
          int64_t col0, int64_t cols, std::vector<double>& packed, std::vector<double>& squares) {
  float row_values[kBlockTerms];
  packed.assign(static_cast<size_t>(round_up(row1 - row0, kPanel) * cols), 0.0);
  for (int64_t row = row0; row < row1; ++row) {
    fill_input(op, data, input, row, col0, {row_values, static_cast<size_t>(cols)});
    const int64_t local = row - row0;
    double* panel = packed.data() + local / kPanel * kPanel * cols + local % kPanel;
    double sums[4] = {};  // one sum would make every addition wait for the one before
    for (int64_t t = 0; t < cols; ++t) {
      const double value = row_values[t];
      panel[t * kPanel] = value;
      sums[t % 4] += value * value;
    }
    squares[static_cast<size_t>(local)] += sums[0] + sums[1] + sums[2] + sums[3];
  }
}

// A block of the output: exact values, and what the error bound needs to know of each.
struct Block {
  int64_t row0, row1, col0, col1;
  std::vector<double> values, partial_magnitudes;  // kBlockRows x kBlockCols
  std::vector<double> a_squares, b_squares;
};

void sum_block(const Segment& op, const InputData& data, Block& block) {
  const int shares = op.makes_terms() ? op.ranks : 1;
  const ColShards of_k = shares == 1 ? ColShards{op.k} : op.shares_of(op.k);
  std::vector<double> partial(kBlockRows * kBlockCols), a, b;
  for (int rank = 0; rank < shares; ++rank) {
    std::fill(partial.begin(), partial.end(), 0.0);
    for (int64_t k0 = of_k.begin(rank); k0 < of_k.end(rank); k0 += kBlockTerms) {
      const int64_t terms = std::min(kBlockTerms, of_k.end(rank) - k0);
      pack<kPanelRows>(op, data, Input::a, block.row0, block.row1, k0, terms, a, block.a_squares);
      pack<kPanelCols>(op, data, Input::b, block.col0, block.col1, k0, terms, b, block.b_squares);
      for (int64_t i = 0; i < block.row1 - block.row0; i += kPanelRows) {
        for (int64_t j = 0; j < block.col1 - block.col0; j += kPanelCols) {
          add_dots(terms, a.data() + i * terms, b.data() + j * terms,
                   partial.data() + i * kBlockCols + j, kBlockCols);
        }
      }
    }
    for (size_t i = 0; i < partial.size(); ++i) {
      block.values[i] += partial[i];
      block.partial_magnitudes[i] += std::fabs(partial[i]);
    }
  }
}

void expect_random(const Segment& op, const InputData& data, const ErrorBound& bound,
                   ExpectedRows& out) {
  for (int64_t row0 = out.row0; row0 < out.row1; row0 += kBlockRows) {
    for (int64_t col0 = 0; col0 < op.n; col0 += kBlockCols) {
      Block block{row0,
                  std::min(row0 + kBlockRows, out.row1),
                  col0,
                  std::min(col0 + kBlockCols, op.n),
                  std::vector<double>(kBlockRows * kBlockCols),
                  std::vector<double>(kBlockRows * kBlockCols),
                  std::vector<double>(kBlockRows),
                  std::vector<double>(kBlockCols)};
      sum_block(op, data, block);
      for (int64_t row = block.row0; row < block.row1; ++row) {
        const double a_norm = std::sqrt(block.a_squares[static_cast<size_t>(row - row0)]);
        for (int64_t col = col0; col < block.col1; ++col) {
          const auto from = static_cast<size_t>((row - row0) * kBlockCols + col - col0);
          const size_t to = out.index(row, col);
          // Cauchy and Schwarz: the sum of |a||b| is at most the product of the norms.
          const double b_norm = std::sqrt(block.b_squares[static_cast<size_t>(col - col0)]);
          out.values[to] = block.values[from];
          out.bounds[to] =
              bound.at(block.values[from], a_norm * b_norm, block.partial_magnitudes[from]);
        }
      }
    }
  }
}

}  // namespace

ExpectedRows expected_rows(const Segment& op, const InputData& data, const Roundings& roundings,
                           int64_t row0, int64_t row1) {
  validate(op);
  STRETTO_ASSERT(row0 >= 0 && row0 <= row1 && row1 <= op.m, "rows outside of the output");
  ExpectedRows out;
  out.row0 = row0;
  out.row1 = row1;
  out.cols = op.n;
  out.values.resize(static_cast<size_t>((row1 - row0) * op.n));
  out.bounds.resize(out.values.size());
  switch (data.fill) {
    case Fill::integers:
      expect_integers(op, data, out);
      break;
    case Fill::random:
    case Fill::subnormals:
      expect_random(op, data, ErrorBound(op, roundings), out);
      break;
    case Fill::specials:
      // Finite values are integers, so these sums are exact; the bound is of what is not finite.
      expect_random(op, data, ErrorBound(op, roundings), out);
      std::fill(out.bounds.begin(), out.bounds.end(), 0.0);
      break;
  }
  return out;
}

}  // namespace stretto

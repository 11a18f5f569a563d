#include "op/stage_values.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "core/parallel.h"
#include "op/dot_rows.h"
#include "stretto/error.h"

namespace stretto {
namespace {

constexpr double kFp32 = 0x1p-24;  // unit roundoff
// Roundings are as good as independent: eight deviations are never seen (see error_bound.cpp).
constexpr double kDeviations = 8;
// Exponentials and quotients of activations, relative: a GPU's fast ones are within a few times
// 2^-22.
constexpr double kActivation = 0x1p-19;
// Of an SiLU far below zero: fp32's exponentials end there.
constexpr double kVanishing = 0x1p-118;
constexpr int64_t kTerms = 256;  // of a dot product at a time

// A thread is worth its start for so many elements of B.
size_t threads_for(int64_t elements) { return static_cast<size_t>(1 + (elements >> 20)); }

double of_terms(double terms) { return 2 + std::min(terms, kDeviations * std::sqrt(terms)); }

// A panel: `kPanel` rows side by side, term by term.
template <int kPanel, typename Get>
void pack(int64_t rows, int64_t k0, int64_t terms, std::vector<double>& to, const Get& get) {
  to.assign(static_cast<size_t>((rows + kPanel - 1) / kPanel * kPanel * terms), 0.0);
  for (int64_t row = 0; row < rows; ++row) {
    double* panel = to.data() + row / kPanel * kPanel * terms + row % kPanel;
    for (int64_t t = 0; t < terms; ++t) panel[t * kPanel] = get(row, k0 + t);
  }
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double silu(double x) { return x * sigmoid(x); }
double gelu(double x) {
  constexpr double kRoot = 0.7978845608028654;  // of 2 / pi
  return 0.5 * x * (1 + std::tanh(kRoot * (x + 0.044715 * x * x * x)));
}

// Neither activation is steeper than this.
constexpr double kSteepest = 1.13;

}  // namespace

Rows gemm_rows(const Operator& op, const InputData& data, const Rows& a, int b, int64_t shares,
               const Roundings& roundings, int64_t b_row) {
  const Tensor& weight = op.tensor(b);
  const int64_t k = weight.cols;
  const ColShards of_k = shares == 1 ? ColShards{k} : op.shares_of(k);
  Rows out(a.rows, weight.rows);
  std::vector<double> a_norm(static_cast<size_t>(a.rows));
  for (int64_t row = 0; row < a.rows; ++row) {
    double sum = 0;
    for (int64_t t = 0; t < k; ++t) sum += a.values[a.at(row, t)] * a.values[a.at(row, t)];
    a_norm[static_cast<size_t>(row)] = std::sqrt(sum);
  }
  // Integers up to these sums are the same in every order, and where ranks store them.
  const double largest_partial =
      shares > 1 && roundings.roundings > 0 ? 1 / unit_roundoff(roundings.partials) : 1 / kFp32;
  std::atomic<bool> is_exact = data.fill == Fill::integers && a.is_exact;
  const int64_t padded = (a.rows + kPanelRows - 1) / kPanelRows * kPanelRows;
  const auto multiply_panel = [&](size_t panel) {
    const int64_t col0 = static_cast<int64_t>(panel) * kPanelCols;
    std::vector<float> b_rows(static_cast<size_t>(kPanelCols * k));
    std::vector<double> a_panel, b_panel, partial(static_cast<size_t>(padded * kPanelCols)),
        squares(partial.size());
    const int64_t cols = std::min<int64_t>(kPanelCols, weight.rows - col0);
    std::vector<double> b_norm(kPanelCols), magnitudes(partial.size()), sums(partial.size());
    for (int64_t j = 0; j < cols; ++j) {
      const std::span<float> row(b_rows.data() + j * k, static_cast<size_t>(k));
      fill_tensor(op, data, b, b_row + col0 + j, 0, row);
      double sum = 0;
      for (const float value : row) sum += double{value} * value;
      b_norm[static_cast<size_t>(j)] = std::sqrt(sum);
    }
    std::fill(squares.begin(), squares.end(), 0.0);
    for (int rank = 0; rank < shares; ++rank) {
      std::fill(partial.begin(), partial.end(), 0.0);
      for (int64_t k0 = of_k.begin(rank); k0 < of_k.end(rank); k0 += kTerms) {
        const int64_t terms = std::min(kTerms, of_k.end(rank) - k0);
        const auto add = [&](const auto& of_a, const auto& of_b, std::vector<double>& to) {
          pack<kPanelRows>(a.rows, k0, terms, a_panel, of_a);
          pack<kPanelCols>(cols, k0, terms, b_panel, of_b);
          for (int64_t i = 0; i < a.rows; i += kPanelRows) {
            add_dots(terms, a_panel.data() + i * terms, b_panel.data(), to.data() + i * kPanelCols,
                     kPanelCols);
          }
        };
        const auto value_of_b = [&](int64_t j, int64_t t) {
          return double{b_rows[static_cast<size_t>(j * k + t)]};
        };
        add([&](int64_t i, int64_t t) { return a.values[a.at(i, t)]; }, value_of_b, partial);
        if (a.is_exact) continue;
        add([&](int64_t i, int64_t t) { return a.errors[a.at(i, t)] * a.errors[a.at(i, t)]; },
            [&](int64_t j, int64_t t) { return value_of_b(j, t) * value_of_b(j, t); }, squares);
      }
      for (size_t i = 0; i < partial.size(); ++i) {
        sums[i] += partial[i];
        magnitudes[i] += std::fabs(partial[i]);
      }
    }
    for (int64_t i = 0; i < a.rows; ++i) {
      for (int64_t j = 0; j < cols; ++j) {
        const auto from = static_cast<size_t>(i * kPanelCols + j);
        const size_t to = out.at(i, col0 + j);
        out.values[to] = sums[from];
        const double terms = a_norm[static_cast<size_t>(i)] * b_norm[static_cast<size_t>(j)];
        if (data.fill == Fill::integers && a.is_exact) {
          if (terms <= 1 / kFp32 && magnitudes[from] <= largest_partial) continue;
          is_exact = false;
        }
        // Errors of A's elements are as good as independent of each other.
        const double passed_on = kDeviations * std::sqrt(squares[from]);
        const double summed =
            kFp32 * of_terms(static_cast<double>(of_k.block())) * terms + passed_on;
        const double on_the_way =
            kFp32 * static_cast<double>(shares - 1) +
            unit_roundoff(roundings.partials) * roundings.roundings * (shares > 1 ? 1 : 0);
        out.errors[to] = 1.01 * (summed + on_the_way * (magnitudes[from] + summed));
      }
    }
  };
  const auto panels = static_cast<size_t>((weight.rows + kPanelCols - 1) / kPanelCols);
  for_each_in_parallel(panels, threads_for(weight.rows * k), multiply_panel);
  out.is_exact = is_exact;
  return out;
}

Rows stage_rows(const Stage& stage, const Rows& x, const Rows* y) {
  Rows out(x.rows, x.cols);
  out.is_exact = false;
  const auto each = [&](const auto& visit) {
    for (int64_t row = 0; row < x.rows; ++row) {
      for (int64_t col = 0; col < x.cols; ++col) {
        const size_t at = x.at(row, col);
        const size_t other = y == nullptr ? 0 : y->rows == 1 && x.rows != 1 ? y->at(0, col) : at;
        visit(at, x.values[at], x.errors[at], other);
      }
    }
  };
  switch (stage.kind) {
    case StageKind::swiglu:
      each([&](size_t at, double g, double error, size_t other) {
        const double u = y->values[other], u_error = y->errors[other];
        out.values[at] = silu(g) * u;
        out.errors[at] = kSteepest * error * (std::fabs(u) + u_error) +
                         std::fabs(silu(g)) * u_error + kActivation * std::fabs(silu(g) * u) +
                         kVanishing * (std::fabs(u) + u_error);
      });
      break;
    case StageKind::gelu:
    case StageKind::silu:
      each([&](size_t at, double value, double error, size_t) {
        out.values[at] = stage.kind == StageKind::gelu ? gelu(value) : silu(value);
        out.errors[at] = kSteepest * error +
                         kActivation * (std::fabs(out.values[at]) + 0x1p-2 * std::fabs(value));
      });
      break;
    case StageKind::bias:
    case StageKind::add:
      out.is_exact = true;
      each([&](size_t at, double value, double error, size_t other) {
        out.values[at] = value + y->values[other];
        const bool exact = x.is_exact && y->is_exact;
        out.errors[at] = exact ? 0 : error + y->errors[other] + kFp32 * std::fabs(out.values[at]);
        out.is_exact = out.is_exact && exact;
      });
      break;
    case StageKind::norm:
      for (int64_t row = 0; row < x.rows; ++row) {
        const auto cols = static_cast<double>(x.cols);
        double squares = 0, cross = 0, error_squares = 0;
        for (int64_t col = 0; col < x.cols; ++col) {
          const double value = x.values[x.at(row, col)], error = x.errors[x.at(row, col)];
          squares += value * value;
          cross += value * value * error * error;
          error_squares += error * error;
        }
        const double mean = squares / cols + stage.eps;
        const double scale = 1 / std::sqrt(mean);
        // The mean of squares moves by what errors move each of them.
        const double moved = (2 * kDeviations * std::sqrt(cross) + error_squares) / cols;
        const double relative =
            moved / (2 * std::max(mean - moved, mean / 2)) + kFp32 * (4 + of_terms(cols));
        for (int64_t col = 0; col < x.cols; ++col) {
          const size_t at = x.at(row, col);
          const double weight = y->values[static_cast<size_t>(col)];
          out.values[at] = x.values[at] * scale * weight;
          out.errors[at] = std::fabs(weight) * scale *
                           (x.errors[at] * (1 + relative) + std::fabs(x.values[at]) * relative);
        }
      }
      break;
    case StageKind::gemm:
    case StageKind::grouped:
    case StageKind::weigh:
    case StageKind::embed:
    case StageKind::embed_mean:
    case StageKind::top_k:
    case StageKind::biased_top_k:
    case StageKind::softmax_gate:
    case StageKind::sigmoid_gate:
    case StageKind::slice_ids:
    case StageKind::slice_weights:
      STRETTO_ASSERT(false, "what goes by indices is not made row by row");
  }
  return out;
}

void round_rows(DType dtype, Rows& rows) {
  const double unit = 1.01 * unit_roundoff(dtype);
  const double tiny = dtype == DType::fp16 ? 0x1p-25 : 0;
  // An exact integer of so few bits stays exact.
  const double whole = 1 / unit_roundoff(dtype);
  bool exact = true;
  for (size_t i = 0; i < rows.values.size(); ++i) {
    const bool is_small = std::fabs(rows.values[i]) <= whole;
    const bool is_integer = std::trunc(rows.values[i]) == rows.values[i];
    if (rows.errors[i] == 0 && is_small && is_integer) continue;
    rows.errors[i] += unit * (std::fabs(rows.values[i]) + rows.errors[i]) + tiny;
    exact = false;
  }
  rows.is_exact = rows.is_exact && exact;
}

}  // namespace stretto

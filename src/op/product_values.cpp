#include "op/product_values.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <span>

#include "core/parallel.h"
#include "op/dot_rows.h"
#include "op/error_bound.h"

namespace stretto {
namespace {

constexpr double kFp32 = 0x1p-24;  // unit roundoff
constexpr int64_t kTerms = 256;    // of a dot product at a time

// A thread is worth its start for so many elements of B.
size_t threads_for(int64_t elements) { return static_cast<size_t>(1 + (elements >> 20)); }

// A panel: `kPanel` rows side by side, term by term.
template <int kPanel, typename Get>
void pack(int64_t rows, int64_t k0, int64_t terms, std::vector<double>& to, const Get& get) {
  to.assign(static_cast<size_t>((rows + kPanel - 1) / kPanel * kPanel * terms), 0.0);
  for (int64_t row = 0; row < rows; ++row) {
    double* panel = to.data() + row / kPanel * kPanel * terms + row % kPanel;
    for (int64_t t = 0; t < terms; ++t) panel[t * kPanel] = get(row, k0 + t);
  }
}

template <typename Value>
double norm_of(const Value* values, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += double{values[i]} * values[i];
  return std::sqrt(sum);
}

// Sums of one element's terms by ranks, as they are added up.
struct Sums {
  double all = 0, squares = 0, positive = 0, negative = 0;

  void add(double partial) {
    all += partial;
    squares += partial * partial;
    (partial > 0 ? positive : negative) += std::fabs(partial);
  }
  double magnitude() const { return positive + negative; }
  double largest() const { return std::max(positive, negative); }  // of any of them
};

// The product of a block of rows with kPanelCols rows of B.
class Panel {
 public:
  Panel(const Rows& a, int64_t cols, std::span<const float> b)
      : a_(a),
        cols_(cols),
        b_(b),
        sums_(
            static_cast<size_t>((a.rows + kPanelRows - 1) / kPanelRows * kPanelRows * kPanelCols)) {
  }

  // Adds sums of the terms [k0, k1) of f(a's element, b's).
  template <typename OfA, typename OfB>
  void add(int64_t k0, int64_t k1, const OfA& of_a, const OfB& of_b) {
    for (int64_t first = k0; first < k1; first += kTerms) {
      const int64_t terms = std::min(kTerms, k1 - first);
      pack<kPanelRows>(a_.rows, first, terms, a_panel_,
                       [&](int64_t i, int64_t t) { return of_a(a_.at(i, t)); });
      pack<kPanelCols>(cols_, first, terms, b_panel_, [&](int64_t j, int64_t t) {
        return of_b(double{b_[static_cast<size_t>(j * a_.cols + t)]});
      });
      for (int64_t i = 0; i < a_.rows; i += kPanelRows) {
        add_dots(terms, a_panel_.data() + i * terms, b_panel_.data(), sums_.data() + i * kPanelCols,
                 kPanelCols);
      }
    }
  }
  void clear() { std::fill(sums_.begin(), sums_.end(), 0.0); }
  double at(int64_t row, int64_t col) const {
    return sums_[static_cast<size_t>(row * kPanelCols + col)];
  }

 private:
  const Rows& a_;
  const int64_t cols_;
  const std::span<const float> b_;
  std::vector<double> sums_, a_panel_, b_panel_;
};

class Product {
 public:
  Product(const Operator& op, const InputData& data, const Rows& a, int b,
          const PartialSums& partials, int64_t b_row)
      : op_(op),
        data_(data),
        a_(a),
        b_(b),
        partials_(partials),
        b_row_(b_row),
        weight_(op.tensor(b)),
        of_k_(partials.shares == 1 ? ColShards{weight_.cols}
                                   : op.shares_of(weight_.cols, 0, weight_.team)),
        of_sums_(sum_variance(static_cast<double>(of_k_.block()), op.dtype)),
        out_(a.rows, weight_.rows),
        lost_(static_cast<size_t>(a.rows)) {
    for (int64_t row = 0; row < a.rows; ++row) {
      a_norms_.push_back(norm_of(a.values.data() + a.at(row, 0), a.cols));
      exact_.push_back(data.fill == Fill::integers && has_integers(row));
    }
    if (partials_.are_weighed) out_.terms.resize(out_.values.size());
    out_.sources = {b};
    out_.weights = with(a.weights, b);
    repeats_ = out_.weights == a.weights;
    out_.repeats_weights = a.repeats_weights || repeats_;
    out_.lose_with(a);
    for (int64_t row = 0; row < a.rows; ++row) out_.set_drift(row, drift_of(row));
    const bool are_exact = std::find(exact_.begin(), exact_.end(), false) == exact_.end();
    const bool are_given = std::all_of(a.variances.begin(), a.variances.end(),
                                       [](double variance) { return variance == 0; });
    is_normal_ = data.fill == Fill::random && are_given;
    has_errors_ = !are_exact && !is_normal_;
  }

  Rows run() {
    const auto panels = static_cast<size_t>((weight_.rows + kPanelCols - 1) / kPanelCols);
    for_each_in_parallel(panels, threads_for(weight_.rows * weight_.cols),
                         [&](size_t panel) { multiply(static_cast<int64_t>(panel) * kPanelCols); });
    for (int64_t row = 0; row < out_.rows; ++row) {
      if (lost_[static_cast<size_t>(row)]) out_.lose(row);
    }
    return std::move(out_);
  }

 private:
  bool has_integers(int64_t row) const {
    for (size_t i = a_.at(row, 0); i < a_.at(row, a_.cols); ++i) {
      if (a_.errors[i] != 0 || std::trunc(a_.values[i]) != a_.values[i]) return false;
    }
    return true;
  }

  // Of n errors alike, squares after a product are apart from their mean by 2 / n of it, squared;
  // by as much at every product with one weight.
  double drift_of(int64_t row) const {
    double all = 0, squares = 0;
    for (size_t i = a_.at(row, 0); i < a_.at(row, a_.cols); ++i) {
      all += a_.variances[i];
      squares += a_.variances[i] * a_.variances[i];
    }
    if (all == 0 || !std::isfinite(squares)) return 0;
    const double before = a_.drift(row), here = std::sqrt(2 * squares) / all;
    return repeats_ ? before + here : std::sqrt(before * before + here * here);
  }

  void multiply(int64_t col0) {
    const int64_t k = weight_.cols, cols = std::min<int64_t>(kPanelCols, weight_.rows - col0);
    std::vector<float> b(static_cast<size_t>(kPanelCols * k));
    std::vector<double> b_norms;
    for (int64_t j = 0; j < cols; ++j) {
      fill_tensor(op_, data_, b_, b_row_ + col0 + j, 0, {b.data() + j * k, static_cast<size_t>(k)});
      b_norms.push_back(norm_of(b.data() + j * k, k));
    }
    Panel products(a_, cols, b), squares(a_, cols, b);
    std::vector<Sums> sums(static_cast<size_t>(a_.rows * cols));
    for (int rank = 0; rank < partials_.shares; ++rank) {
      products.clear();
      products.add(
          of_k_.begin(rank), of_k_.end(rank), [&](size_t at) { return a_.values[at]; },
          [](double value) { return value; });
      for (int64_t i = 0; i < a_.rows; ++i) {
        for (int64_t j = 0; j < cols; ++j) {
          sums[static_cast<size_t>(i * cols + j)].add(products.at(i, j));
        }
      }
    }
    if (has_errors_) {
      // Errors that are passed on, and those of sums that grow with the squares of their terms.
      squares.add(
          0, k,
          [&](size_t at) { return a_.variances[at] + of_sums_ * a_.values[at] * a_.values[at]; },
          [](double value) { return value * value; });
    }
    for (int64_t i = 0; i < a_.rows; ++i) {
      for (int64_t j = 0; j < cols; ++j) {
        const double norms = a_norms_[static_cast<size_t>(i)] * b_norms[static_cast<size_t>(j)];
        store(i, out_.at(i, col0 + j), sums[static_cast<size_t>(i * cols + j)], norms,
              squares.at(i, j));
      }
    }
  }

  // `norms`: at least the sum of the terms' magnitudes. `squares`: where rows have errors.
  void store(int64_t row, size_t at, const Sums& sums, double norms, double squares) {
    out_.values[at] = sums.all;
    const bool are_stored = partials_.stored > 0;
    const double unit = unit_roundoff(partials_.dtype);
    double variance = 0;
    if (exact_[static_cast<size_t>(row)]) {
      // Integers up to these are the same in every order, and where ranks store them.
      const bool is_sum_exact = norms <= 1 / kFp32;
      if (is_sum_exact && (!are_stored || sums.magnitude() <= 1 / unit)) {
        if (partials_.are_weighed) out_.terms[at] = {sums.magnitude(), sums.squares};
        return;
      }
      if (!is_sum_exact) variance = of_sums_ * (norms * norms + sums.squares);
    } else {
      if (is_normal_) {
        squares = of_sums_ * largest_part(static_cast<double>(a_.cols)) * norms * norms;
      }
      variance = squares + of_sums_ * sums.squares;
    }
    double certain = out_.largest_error(row, variance);
    if (partials_.shares > 1) {
      const double reached = sums.largest() + certain;
      const double additions = static_cast<double>(partials_.shares - 1);
      const double tiny = subnormal_roundoff(partials_.dtype);
      const double roundings =
          static_cast<double>(partials_.shares) * partials_.stored + partials_.sent;
      variance +=
          (kFp32 * kFp32 * additions * reached * reached +
           unit * unit * (partials_.stored * sums.squares + partials_.sent * reached * reached) +
           tiny * tiny * roundings) /
          3;
      certain += (kFp32 * additions + unit * (partials_.stored + partials_.sent)) *
                     (sums.magnitude() + certain) +
                 tiny * roundings;
      if (are_stored && !(reached < least_infinite(partials_.dtype))) {
        lost_[static_cast<size_t>(row)] = 1;
      }
    }
    out_.set_error(row, at, kSlack * certain, variance);
  }

  const Operator& op_;
  const InputData& data_;
  const Rows& a_;
  const int b_;
  const PartialSums& partials_;
  const int64_t b_row_;
  const Tensor& weight_;
  const ColShards of_k_;
  const double of_sums_;
  std::vector<double> a_norms_;
  std::vector<bool> exact_;  // by row: integers without errors
  bool has_errors_ = false, is_normal_ = false, repeats_ = false;
  Rows out_;
  std::vector<std::atomic<char>> lost_;  // by row; threads set them
};

}  // namespace

PartialSums::PartialSums(int64_t num_shares, const Roundings& roundings)
    : shares(num_shares), dtype(roundings.partials) {
  if (shares == 1 || roundings.roundings == 0) return;
  stored = 1;
  sent = roundings.roundings - 1;
}

Rows gemm_rows(const Operator& op, const InputData& data, const Rows& a, int b,
               const PartialSums& partials, int64_t b_row) {
  return Product(op, data, a, b, partials, b_row).run();
}

}  // namespace stretto

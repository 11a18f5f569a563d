#include "op/routed_values.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "op/error_bound.h"
#include "op/product_values.h"
#include "op/routing_input.h"
#include "op/stage_rules.h"
#include "op/stages/stage_row.h"

namespace stretto {
namespace {

constexpr double kFp32 = 0x1p-24;  // unit roundoff
constexpr double kUndefined = std::numeric_limits<double>::infinity();

bool is_integer(double value) { return std::trunc(value) == value; }

void copy_row(const Rows& from, int64_t row, Rows& to, int64_t to_row) {
  const auto begin = static_cast<std::ptrdiff_t>(from.at(row, 0));
  const auto into = static_cast<std::ptrdiff_t>(to.at(to_row, 0));
  std::copy_n(from.values.begin() + begin, from.cols, to.values.begin() + into);
  std::copy_n(from.errors.begin() + begin, from.cols, to.errors.begin() + into);
  std::copy_n(from.variances.begin() + begin, from.cols, to.variances.begin() + into);
  if (!from.terms.empty()) {
    to.terms.resize(to.values.size());
    std::copy_n(from.terms.begin() + begin, from.cols, to.terms.begin() + into);
  }
  to.set_drift(to_row, from.drift(row));
  if (from.loses(row)) to.lose(to_row);
}

// A product of a row, and its weight.
struct Term {
  int64_t choice = 0;
  int32_t expert = 0;
  double weight = 0, error = 0, deviation = 0;  // of the weight
};

// One element of a row's sum.
struct WeighedSum {
  double value = 0, largest = 0, variance = 0;                    // `largest`: error
  double magnitude = 0, squares = 0, positive = 0, negative = 0;  // of terms
  Rows::Terms of_ranks;      // the terms that ranks have of these
  bool are_integers = true;  // terms
};

// `terms` by expert. Products of a row with one expert are the same, and so are their errors; those
// with different experts are independent. Of weights, which may all hang on one score, nothing is.
WeighedSum weigh_terms(const std::vector<Term>& terms, const Rows& products, int64_t col) {
  WeighedSum sum;
  double of_weights = 0, of_expert = 0;
  for (size_t i = 0; i < terms.size(); ++i) {
    const Term& term = terms[i];
    const size_t at = products.at(term.choice, col);
    const double value = term.weight * products.values[at], magnitude = std::fabs(value);
    const double reached = std::fabs(products.values[at]) + products.errors[at];
    sum.value += value;
    sum.magnitude += magnitude;
    sum.squares += value * value;
    sum.are_integers = sum.are_integers && term.error == 0 && is_integer(term.weight) &&
                       is_integer(products.values[at]);
    if (!products.terms.empty()) {
      sum.of_ranks.magnitude += std::fabs(term.weight) * products.terms[at].magnitude;
      sum.of_ranks.squares += term.weight * term.weight * products.terms[at].squares;
    }
    (value > 0 ? sum.positive : sum.negative) += magnitude;
    sum.largest += std::fabs(term.weight) * products.errors[at] + term.error * reached;
    of_weights += term.deviation * reached;
    if (i > 0 && terms[i - 1].expert != term.expert) of_expert = 0;
    const double before = of_expert;
    of_expert += std::fabs(term.weight) * std::sqrt(products.variances[at]);
    sum.variance += of_expert * of_expert - before * before;
  }
  const double deviation = std::sqrt(std::max(0.0, sum.variance)) + of_weights;
  sum.variance = deviation * deviation;
  return sum;
}

// The stage that has made rows of choices, which stages between have left in their order; null: the
// tensor has other rows.
const Stage* maker_of_choices(const Operator& op, int tensor) {
  int made_by = op.tensor(tensor).stage;
  while (made_by >= 0 && row_of(op.stage(made_by).kind).follows_tiles) {
    made_by = op.tensor(op.stage(made_by).in[0]).stage;
  }
  const bool are_choices = made_by >= 0 && makes_choices_rows(op.stage(made_by).kind);
  return are_choices ? &op.stage(made_by) : nullptr;
}

}  // namespace

std::optional<int> rank_of_choice(const Operator& op, const InputData& data, int tensor,
                                  int64_t row) {
  if (op.tensor(tensor).held != Held::routed) return std::nullopt;
  for (const Stage& stage : op.stages) {
    if (!makes_choices_rows(stage.kind) || stage.in[0] != tensor) continue;
    const int ids = stage.in[operand_of_ids(stage.kind)];
    if (op.tensor(ids).stage >= 0) return std::nullopt;
    const int64_t slots = op.tensor(ids).cols, all = op.experts_of(stage);
    const int32_t expert = ids_of_row(op, data, ids, row / slots)[static_cast<size_t>(row % slots)];
    return expert < 0 || expert >= all ? -1 : RowShards{all, op.ranks}.owner(expert);
  }
  return std::nullopt;
}

Rows count_choices(const Operator& op, const InputData& data, const Stage& stage) {
  const int ids = stage.in[0];
  Rows counts(stage.experts, 1);
  for (int64_t row = 0; row < op.tensor(ids).rows; ++row) {
    for (const int32_t id : ids_of_row(op, data, ids, row)) {
      if (id >= 0 && id < stage.experts) ++counts.values[static_cast<size_t>(id)];
    }
  }
  return counts;
}

int64_t rows_each(const Operator& op, int tensor) {
  const auto makes_them = [](const Stage& stage) { return makes_choices_rows(stage.kind); };
  if (std::none_of(op.stages.begin(), op.stages.end(), makes_them)) return 1;
  std::vector<int64_t> each(op.tensors.size(), 1);
  const auto of = [&](int one) -> int64_t& { return each[static_cast<size_t>(one)]; };
  for (const Stage& stage : op.stages) {
    if (!makes_them(stage)) continue;
    const Tensor& ids = op.tensor(stage.in[operand_of_ids(stage.kind)]);
    for (const int one : {stage.in[0], stage.out}) {
      if (op.tensor(one).rows == ids.rows * ids.cols) of(one) = ids.cols;
    }
  }
  // What goes with them row by row has as many, ahead of those stages and behind them.
  for (bool any = true; any;) {
    any = false;
    for (const Stage& stage : op.stages) {
      if (!goes_by_rows(stage.kind)) continue;
      int64_t most = of(stage.out);
      for (size_t i = 0; i < stage.in.size(); ++i) {
        if (!is_parameter(stage.kind, i)) most = std::max(most, of(stage.in[i]));
      }
      const auto spread = [&](int one) {
        any = any || of(one) != most;
        of(one) = most;
      };
      spread(stage.out);
      for (size_t i = 0; i < stage.in.size(); ++i) {
        if (!is_parameter(stage.kind, i)) spread(stage.in[i]);
      }
    }
  }
  return of(tensor);
}

void RoutedRows::set_ids(int tensor, const Rows& ids) {
  std::vector<int32_t>& made = made_[tensor];
  for (const double id : ids.values) made.push_back(static_cast<int32_t>(id));
}

std::vector<int32_t> RoutedRows::experts(int ids, int64_t matrices) const {
  std::vector<int32_t> all;
  if (const auto made = made_.find(ids); made != made_.end()) {
    for (const int32_t id : made->second) all.push_back(id >= 0 && id < matrices ? id : -1);
    return all;
  }
  const int64_t last = std::min(row1_, op_.tensor(ids).rows);
  for (int64_t row = row0_; row < last; ++row) {
    for (const int32_t id : ids_of_row(op_, data_, ids, row)) {
      all.push_back(id >= 0 && id < matrices ? id : -1);
    }
  }
  return all;
}

Rows RoutedRows::grouped(const Stage& stage, const Rows& x, int64_t shares) const {
  const Tensor& stack = op_.tensor(stage.in[1]);
  const std::vector<int32_t> of_choice = experts(stage.in[2], stack.matrices);
  const auto choices = static_cast<int64_t>(of_choice.size());
  const int64_t per = x.rows == 0 ? 1 : choices / x.rows;
  Rows out(choices, stack.rows);
  out.sources = {stage.in[1]};
  out.weights = with(x.weights, stage.in[1]);
  out.repeats_weights = x.repeats_weights || out.weights == x.weights;
  PartialSums partials(shares, roundings_);
  if (shares > 1) {
    // A term is rounded when it is stored before it is weighed, and then the sums of a row's terms
    // are: roundings of a sum of n are at most n times those of its terms, in squares.
    if (unit_roundoff(op_.dtype) > unit_roundoff(partials.dtype)) partials.dtype = op_.dtype;
    const auto slots = static_cast<double>(op_.tensor(stage.in[2]).cols);
    partials.stored = 1 + slots * partials.stored;
    partials.sent *= slots;
    partials.are_weighed = true;
  }
  for (int64_t expert = 0; expert < stack.matrices; ++expert) {
    std::vector<int64_t> own;
    for (int64_t c = 0; c < choices; ++c) {
      if (of_choice[static_cast<size_t>(c)] == expert) own.push_back(c);
    }
    if (own.empty()) continue;
    Rows a(static_cast<int64_t>(own.size()), x.cols);
    a.weights = x.weights;
    a.repeats_weights = x.repeats_weights;
    for (size_t i = 0; i < own.size(); ++i) {
      copy_row(x, own[i] / per, a, static_cast<int64_t>(i));
    }
    const Rows product = gemm_rows(op_, data_, a, stage.in[1], partials, expert * stack.rows);
    for (size_t i = 0; i < own.size(); ++i) {
      copy_row(product, static_cast<int64_t>(i), out, own[i]);
    }
  }
  return out;
}

Rows RoutedRows::permuted(const Stage& stage, const Rows& x) const {
  const std::vector<int32_t> of_choice = experts(stage.in[1], stage.experts);
  const auto choices = static_cast<int64_t>(of_choice.size());
  Rows out(choices, x.cols);
  out.weights = x.weights;
  out.repeats_weights = x.repeats_weights;
  for (int64_t choice = 0; choice < choices; ++choice) {
    if (of_choice[static_cast<size_t>(choice)] < 0) continue;
    copy_row(x, choice * x.rows / choices, out, choice);
  }
  return out;
}

std::vector<int32_t> RoutedRows::owners(int tensor) const {
  const Stage& stage = *maker_of_choices(op_, tensor);
  const int64_t all = op_.experts_of(stage);
  std::vector<int32_t> ranks = experts(stage.in[operand_of_ids(stage.kind)], all);
  for (int32_t& one : ranks) one = one < 0 ? -1 : RowShards{all, op_.ranks}.owner(one);
  return ranks;
}

void RoutedRows::allow_undefined(int tensor, ExpectedRows& rows) const {
  const Stage* const stage = maker_of_choices(op_, tensor);
  if (stage == nullptr) return;
  const std::vector<int32_t> of_choice =
      experts(stage->in[operand_of_ids(stage->kind)], op_.experts_of(*stage));
  for (size_t choice = 0; choice < of_choice.size(); ++choice) {
    if (of_choice[choice] >= 0) continue;
    const auto first = rows.bounds.begin() + static_cast<std::ptrdiff_t>(choice) * rows.cols;
    std::fill(first, first + rows.cols, kUndefined);
  }
}

Rows RoutedRows::weigh(const Stage& stage, const Rows& products, const Rows& weights) const {
  const int64_t slots = weights.cols;
  int64_t all = 0;
  for (const Stage& one : op_.stages) {
    const bool is_by_them =
        makes_choices_rows(one.kind) && one.in[operand_of_ids(one.kind)] == stage.in[1];
    if (is_by_them) all = op_.experts_of(one);
  }
  const std::vector<int32_t> of_choice = experts(stage.in[1], all);
  Rows out(weights.rows, products.cols);
  out.follow(weights, nullptr);
  out.join(products);
  // Sums that ranks have are rounded on their way: over their experts, or of their terms of
  // products, but terms that are no integers have been charged it.
  PartialSums sums(op_.ranks, roundings_);
  const bool are_sums = op_.tensor(stage.out).held == Held::routed && sums.stored > 0;
  const double unit = unit_roundoff(sums.dtype);
  for (int64_t row = 0; row < out.rows; ++row) {
    std::vector<Term> terms;
    bool is_lost = false;
    for (int64_t slot = 0; slot < slots; ++slot) {
      const int64_t choice = row * slots + slot;
      const int32_t expert = of_choice[static_cast<size_t>(choice)];
      if (expert < 0) continue;
      const size_t at = weights.at(row, slot);
      terms.push_back({choice, expert, weights.values[at], weights.errors[at],
                       std::sqrt(weights.variances[at])});
      is_lost = is_lost || products.loses(choice);
      out.set_drift(row, std::max(out.drift(row), products.drift(choice)));
    }
    std::stable_sort(terms.begin(), terms.end(),
                     [](const Term& a, const Term& b) { return a.expert < b.expert; });
    for (int64_t col = 0; col < out.cols; ++col) {
      const WeighedSum sum = weigh_terms(terms, products, col);
      const size_t at = out.at(row, col);
      out.values[at] = sum.value;
      const double limit = are_sums ? 1 / unit : 1 / kFp32;
      const bool are_exact = data_.fill == Fill::integers && sum.are_integers && sum.largest == 0;
      const bool are_ranks_exact = sums.stored == 0 || sum.of_ranks.magnitude <= 1 / unit;
      if (are_exact && sum.magnitude <= limit && are_ranks_exact) continue;
      double variance = sum.variance, largest = sum.largest;
      const double reached = std::max(sum.positive, sum.negative) + largest;
      const double additions = static_cast<double>(slots + op_.ranks);
      variance += kFp32 * kFp32 / 3 * additions *
                  (sum.squares + sum.value * sum.value + sum.of_ranks.squares);
      double relative = kFp32 * additions;
      if (are_sums) {
        // The squares of ranks' sums are together no more than that of all magnitudes.
        variance += unit * unit / 3 *
                    (sums.stored * sum.magnitude * sum.magnitude + sums.sent * reached * reached);
        relative += unit * (sums.stored + sums.sent);
        const double tiny = subnormal_roundoff(sums.dtype);
        const double times = static_cast<double>(slots) + sums.sent;
        variance += tiny * tiny / 3 * times;
        largest += tiny * times;
        is_lost = is_lost || !(reached < least_infinite(sums.dtype));
      }
      // A sum of n terms, squared, is at most n times their squares.
      const double roundings = sums.stored + sums.sent;
      variance += unit * unit / 3 * roundings * static_cast<double>(slots) * sum.of_ranks.squares;
      if (sum.of_ranks.magnitude > 0) {
        const double tiny = subnormal_roundoff(sums.dtype);
        const double times = sums.stored * op_.ranks + sums.sent;
        variance += tiny * tiny / 3 * times;
        largest += tiny * times;
      }
      largest += (unit * roundings + relative) * sum.of_ranks.magnitude;
      largest += relative * (sum.magnitude + largest);
      out.set_error(row, at, kSlack * largest, variance);
    }
    if (is_lost) out.lose(row);
  }
  return out;
}

}  // namespace stretto

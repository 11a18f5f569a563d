#include "op/routed_values.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "op/routing_input.h"

namespace stretto {
namespace {

constexpr double kFp32 = 0x1p-24;  // unit roundoff
constexpr double kUndefined = std::numeric_limits<double>::infinity();

bool is_activation(StageKind kind) {
  return kind == StageKind::bias || kind == StageKind::gelu || kind == StageKind::silu ||
         kind == StageKind::swiglu;
}

void copy_row(const Rows& from, int64_t row, Rows& to, int64_t to_row) {
  const auto begin = static_cast<std::ptrdiff_t>(from.at(row, 0));
  const auto into = static_cast<std::ptrdiff_t>(to.at(to_row, 0));
  std::copy_n(from.values.begin() + begin, from.cols, to.values.begin() + into);
  std::copy_n(from.errors.begin() + begin, from.cols, to.errors.begin() + into);
}

}  // namespace

int64_t rows_each(const Operator& op, int tensor) {
  const Tensor& of = op.tensor(tensor);
  for (const Stage& stage : op.stages) {
    if (stage.kind != StageKind::grouped) continue;
    const Tensor& ids = op.tensor(stage.in[2]);
    const bool is_choices = of.rows == ids.rows * ids.cols && of.rows != ids.rows;
    if (is_choices && (of.stage >= 0 || stage.in[0] == tensor)) return ids.cols;
  }
  return 1;
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
  for (int64_t row = row0_; row < row1_; ++row) {
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
  // A term of a sum is rounded once more, when it is stored before it is weighed.
  Roundings roundings = roundings_;
  if (unit_roundoff(op_.dtype) > unit_roundoff(roundings.partials)) roundings.partials = op_.dtype;
  ++roundings.roundings;
  out.is_exact = x.is_exact && data_.fill == Fill::integers;
  for (int64_t expert = 0; expert < stack.matrices; ++expert) {
    std::vector<int64_t> own;
    for (int64_t c = 0; c < choices; ++c) {
      if (of_choice[static_cast<size_t>(c)] == expert) own.push_back(c);
    }
    if (own.empty()) continue;
    Rows a(static_cast<int64_t>(own.size()), x.cols);
    a.is_exact = x.is_exact;
    for (size_t i = 0; i < own.size(); ++i) {
      copy_row(x, own[i] / per, a, static_cast<int64_t>(i));
    }
    const Rows product =
        gemm_rows(op_, data_, a, stage.in[1], shares, roundings, expert * stack.rows);
    for (size_t i = 0; i < own.size(); ++i) {
      copy_row(product, static_cast<int64_t>(i), out, own[i]);
    }
  }
  return out;
}

void RoutedRows::allow_undefined(int tensor, ExpectedRows& rows) const {
  // What follows a product has the product's rows.
  int made_by = op_.tensor(tensor).stage;
  while (made_by >= 0 && is_activation(op_.stage(made_by).kind)) {
    made_by = op_.tensor(op_.stage(made_by).in[0]).stage;
  }
  if (made_by < 0 || op_.stage(made_by).kind != StageKind::grouped) return;
  const Stage& stage = op_.stage(made_by);
  const std::vector<int32_t> of_choice = experts(stage.in[2], op_.tensor(stage.in[1]).matrices);
  for (size_t choice = 0; choice < of_choice.size(); ++choice) {
    if (of_choice[choice] >= 0) continue;
    const auto first = rows.bounds.begin() + static_cast<std::ptrdiff_t>(choice) * rows.cols;
    std::fill(first, first + rows.cols, kUndefined);
  }
}

Rows RoutedRows::weigh(const Stage& stage, const Rows& products, const Rows& weights) const {
  const int64_t slots = weights.cols;
  const int grouped_ids = stage.in[1];
  int64_t matrices = 0;
  for (const Stage& one : op_.stages) {
    if (one.kind == StageKind::grouped && one.in[2] == grouped_ids) {
      matrices = op_.tensor(one.in[1]).matrices;
    }
  }
  const std::vector<int32_t> of_choice = experts(grouped_ids, matrices);
  Rows out(row1_ - row0_, products.cols);
  out.is_exact = products.is_exact && weights.is_exact && data_.fill == Fill::integers;
  double added = out.is_exact ? 0 : kFp32 * static_cast<double>(slots + op_.ranks);
  // Sums over a rank's experts are rounded on their way; terms of products have been charged it.
  const bool are_sums = op_.tensor(stage.out).held == Held::routed;
  if (are_sums && !out.is_exact) {
    added += unit_roundoff(roundings_.partials) * roundings_.roundings;
  }
  for (int64_t row = 0; row < out.rows; ++row) {
    for (int64_t slot = 0; slot < slots; ++slot) {
      const int64_t choice = row * slots + slot;
      if (of_choice[static_cast<size_t>(choice)] < 0) continue;
      const double weight = weights.values[weights.at(row, slot)];
      const double of_weight = weights.errors[weights.at(row, slot)];
      for (int64_t col = 0; col < out.cols; ++col) {
        const double value = products.values[products.at(choice, col)];
        const double error = products.errors[products.at(choice, col)];
        out.values[out.at(row, col)] += weight * value;
        out.errors[out.at(row, col)] +=
            std::fabs(weight) * (error + added * (std::fabs(value) + error)) +
            of_weight * (1 + added) * (std::fabs(value) + error);
      }
    }
  }
  return out;
}

}  // namespace stretto

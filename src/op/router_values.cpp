#include "op/router_values.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "op/error_bound.h"
#include "op/stage_values.h"

namespace stretto {
namespace {

constexpr double kFp32 = 0x1p-24;  // unit roundoff
// Exponentials and quotients, relative, as of activations.
constexpr double kActivation = 0x1p-19;
// What is smaller may come out as anything that small, before sums of 1e-20 and more divide it.
constexpr double kTiny = 0x1p-126;
constexpr double kLeast = -std::numeric_limits<float>::max();

// An infinite score is so for every implementation.
double error_of(const Rows& scores, int64_t row, int64_t expert) {
  const size_t at = scores.at(row, expert);
  return std::isinf(scores.values[at]) ? 0 : scores.errors[at];
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double to_fp32(double x) { return static_cast<float>(x); }

// An expert, or a group of them, as one chooses: by a value that may be off by so much, which is
// computed of `made_of`.
struct Candidate {
  int64_t number = 0;
  double value = 0, error = 0;
  std::vector<double> made_of;

  bool is_before(const Candidate& other) const {
    return value > other.value || (value == other.value && number < other.number);
  }
  // Whether no implementation can take the two for one another.
  bool is_apart(const Candidate& other) const {
    return made_of == other.made_of || std::isinf(value) || std::isinf(other.value) ||
           std::fabs(value - other.value) > error + other.error;
  }
};

class RowChooser {
 public:
  RowChooser(const Stage& stage, const Rows& scores, const Rows* bias)
      : stage_(stage), scores_(scores), bias_(bias) {}

  // Whether it is sure.
  bool choose(int64_t row, double* ids) {
    std::fill_n(ids, stage_.k, -2.0);
    std::vector<Candidate> all;
    for (int64_t i = 0; i < scores_.cols; ++i) {
      all.push_back(candidate(row, i));
      if (std::isnan(all.back().value)) return true;
    }
    is_sure_ = true;
    std::vector<Candidate> left = of_best_groups(all);
    take(left, stage_.k);
    for (int64_t slot = 0; slot < stage_.k; ++slot) {
      ids[slot] = static_cast<double>(left[static_cast<size_t>(slot)].number);
    }
    // Their order counts too.
    for (size_t i = 1; i < static_cast<size_t>(stage_.k); ++i) {
      is_sure_ = is_sure_ && left[i - 1].is_apart(left[i]);
    }
    return is_sure_;
  }

 private:
  Candidate candidate(int64_t row, int64_t expert) const {
    const double score = scores_.values[scores_.at(row, expert)];
    const double error = error_of(scores_, row, expert);
    std::vector<double> made_of = {score};
    // Equal scores of two products are two sums, and rounding may tell them apart.
    if (error > 0) made_of.push_back(static_cast<double>(expert));
    if (bias_ == nullptr) return {expert, score, error, made_of};
    const double added = bias_->values[static_cast<size_t>(expert)];
    const double sum = to_fp32(to_fp32(sigmoid(score)) + added);
    made_of.push_back(added);
    return {expert, sum,
            error / 4 + kActivation * sigmoid(score) + 2 * kFp32 * std::fabs(sum) + kTiny, made_of};
  }

  // The first ones, in their order.
  void take(std::vector<Candidate>& from, int64_t count) {
    std::sort(from.begin(), from.end(),
              [](const Candidate& a, const Candidate& b) { return a.is_before(b); });
    for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
      for (size_t j = static_cast<size_t>(count); j < from.size(); ++j) {
        is_sure_ = is_sure_ && from[i].is_apart(from[j]);
      }
    }
    from.resize(static_cast<size_t>(count));
  }

  std::vector<Candidate> of_best_groups(const std::vector<Candidate>& all) {
    if (stage_.groups == 1) return all;
    const auto size = static_cast<int64_t>(all.size()) / stage_.groups;
    std::vector<Candidate> groups;
    for (int64_t group = 0; group < stage_.groups; ++group) {
      std::vector<Candidate> own(all.begin() + group * size, all.begin() + (group + 1) * size);
      Candidate of_group{group, 0, 0, {}};
      for (const Candidate& one : own) of_group.error = std::max(of_group.error, one.error);
      std::sort(own.begin(), own.end(),
                [](const Candidate& a, const Candidate& b) { return a.is_before(b); });
      own.resize(static_cast<size_t>(std::min<int64_t>(size, bias_ == nullptr ? 1 : 2)));
      for (const Candidate& one : own) {
        of_group.value += one.value;
        of_group.made_of.insert(of_group.made_of.end(), one.made_of.begin(), one.made_of.end());
      }
      if (own.size() > 1) {
        // Infinities of both signs have no sum: the best one stands for it.
        of_group.value = std::isnan(of_group.value) ? own[0].value : to_fp32(of_group.value);
        of_group.error = 2 * of_group.error + 2 * kFp32 * std::fabs(of_group.value);
      }
      groups.push_back(std::move(of_group));
    }
    take(groups, stage_.best);
    std::vector<Candidate> left;
    for (const Candidate& group : groups) {
      left.insert(left.end(), all.begin() + group.number * size,
                  all.begin() + (group.number + 1) * size);
    }
    return left;
  }

  const Stage& stage_;
  const Rows& scores_;
  const Rows* bias_;
  bool is_sure_ = true;
};

}  // namespace

ChosenRows choose_experts(const Stage& stage, const Rows& scores, const Rows* bias) {
  ChosenRows chosen{Rows(scores.rows, stage.k), {}};
  RowChooser chooser(stage, scores, bias);
  for (int64_t row = 0; row < scores.rows; ++row) {
    chosen.is_sure.push_back(chooser.choose(row, chosen.ids.values.data() + chosen.ids.at(row, 0)));
  }
  return chosen;
}

// All are divided by one sum, so a factor of all values is of no account: a softmax's largest score
// may be taken off, or not. Scores of -inf count nothing, so that rows of nothing else weigh 0;
// those of +inf count alike, and all others nothing beside them.
Rows weigh_choices(const Stage& stage, DType dtype, const Rows& scores, const Rows& ids) {
  Rows out(ids.rows, ids.cols);
  out.follow(scores, nullptr);
  const bool is_softmax = stage.kind == StageKind::softmax_gate;
  for (int64_t row = 0; row < ids.rows; ++row) {
    std::vector<int64_t> counted;
    if (is_softmax && !stage.normalises) {
      counted.resize(static_cast<size_t>(scores.cols));
      std::iota(counted.begin(), counted.end(), 0);
    }
    for (int64_t slot = 0; slot < ids.cols; ++slot) {
      const auto id = static_cast<int64_t>(ids.values[ids.at(row, slot)]);
      if (stage.normalises && id >= 0 && id < scores.cols) counted.push_back(id);
    }
    double most = kLeast, error = 0, spread = 0;  // of scores that count something
    for (const int64_t expert : counted) {
      most = std::max(most, scores.values[scores.at(row, expert)]);
      error = std::max(error, error_of(scores, row, expert));
    }
    for (const int64_t expert : counted) {
      const double behind = most - scores.values[scores.at(row, expert)];
      if (std::isfinite(behind)) spread = std::max(spread, behind);
    }
    const auto value = [&](int64_t expert) {
      const double score = scores.values[scores.at(row, expert)];
      if (!is_softmax) return sigmoid(score);
      return score == most ? 1 : std::exp(score - most);
    };
    double sum = 0;
    for (const int64_t expert : counted) sum += value(expert);
    const double divisor = counted.empty() ? 1 : std::max(sum, 1e-20);
    for (int64_t slot = 0; slot < ids.cols; ++slot) {
      const auto id = static_cast<int64_t>(ids.values[ids.at(row, slot)]);
      if (id < 0 || id >= scores.cols) continue;
      const double own = error_of(scores, row, id);
      const double moved = std::expm1(own + error) + kFp32 * (4 * spread + 8);
      const double added = kFp32 * static_cast<double>(counted.size());
      const double weight = value(id) / divisor * stage.scale;
      out.values[out.at(row, slot)] = weight;
      const double largest =
          weight * (moved + added + 4 * activation_roundoff(dtype)) + stage.scale * kTiny / divisor;
      // Scores' errors are eight of their deviations.
      out.set_error(row, out.at(row, slot), largest,
                    largest / kDeviations * (largest / kDeviations));
    }
  }
  return out;
}

Rows repeat_cols(const Rows& rows, int64_t times) {
  Rows out(rows.rows, rows.cols * times);
  out.follow(rows, nullptr);
  for (int64_t row = 0; row < out.rows; ++row) {
    for (int64_t col = 0; col < out.cols; ++col) {
      out.values[out.at(row, col)] = rows.values[rows.at(row, col / times)];
      out.errors[out.at(row, col)] = rows.errors[rows.at(row, col / times)];
      out.variances[out.at(row, col)] = rows.variances[rows.at(row, col / times)];
    }
  }
  return out;
}

Rows slices_of(const Rows& ids, int64_t experts, int64_t slices) {
  Rows out = repeat_cols(ids, slices);
  for (int64_t row = 0; row < out.rows; ++row) {
    for (int64_t col = 0; col < out.cols; ++col) {
      double& id = out.values[out.at(row, col)];
      const bool is_expert = id >= 0 && id < static_cast<double>(experts);
      id = is_expert ? id + static_cast<double>(col % slices * experts) : -1;
    }
  }
  return out;
}

}  // namespace stretto

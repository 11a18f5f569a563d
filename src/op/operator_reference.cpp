// The reference of operators: their stages one after the other, on some rows at a time. Rows do not
// depend on one another; what is counted of all rows is the caller's ids alone.
#include <algorithm>
#include <limits>
#include <map>

#include "op/look_up_values.h"
#include "op/product_values.h"
#include "op/routed_values.h"
#include "op/router_values.h"
#include "op/stage_values.h"
#include "stretto/error.h"
#include "stretto/reference.h"

namespace stretto {
namespace {

class StageByStage {
 public:
  StageByStage(const Operator& op, const InputData& data, const Roundings& roundings, int64_t row0,
               int64_t row1)
      : op_(op),
        data_(data),
        roundings_(roundings),
        row0_(row0),
        row1_(row1),
        routed_(op, data, roundings, row0, row1) {}

  std::vector<ExpectedRows> run() {
    for (const Stage& stage : op_.stages) add(stage);
    std::vector<ExpectedRows> outputs;
    for (const OperatorOutput& output : op_.outputs) {
      const Rows& rows = rows_.at(output.tensor);
      if (is_count(output.tensor)) {  // with the first rows, of all
        outputs.push_back({0, rows.rows, rows.cols, rows.values, rows.errors});
        continue;
      }
      const int64_t each = rows_each(op_, output.tensor);
      const int64_t first = row0_ * each;
      outputs.push_back({first, first + rows.rows, rows.cols, rows.values, rows.errors});
      ExpectedRows& expected = outputs.back();
      allow_lost(rows, expected);
      routed_.allow_undefined(output.tensor, expected);
      if (output.held == Held::routed) expected.owners = routed_.owners(output.tensor);
      allow_others(expected, each);
    }
    return outputs;
  }

 private:
  const Rows& rows_of(int tensor) {
    const auto known = rows_.find(tensor);
    if (known != rows_.end()) return known->second;
    const Tensor& of = op_.tensor(tensor);
    const bool is_row = of.rows == 1;  // for all rows
    const int64_t each = rows_each(op_, tensor);
    // Some have fewer rows than others.
    const int64_t first = is_row ? 0 : std::min(row0_ * each, of.rows);
    const int64_t last = is_row ? 1 : std::min(row1_ * each, of.rows);
    Rows rows(last - first, of.cols);
    std::vector<float> line(static_cast<size_t>(of.cols));
    for (int64_t row = first; row < last; ++row) {
      fill_tensor(op_, data_, tensor, row, 0, line);
      std::copy(line.begin(), line.end(),
                rows.values.begin() + static_cast<std::ptrdiff_t>(rows.at(row - first, 0)));
    }
    return rows_[tensor] = std::move(rows);
  }

  void add(const Stage& stage) {
    if (looks_up(stage.kind)) return store(stage, look_up_rows(op_, data_, stage, row0_, row1_));
    if (chooses_experts(stage.kind)) return choose(stage);
    if (stage.kind == StageKind::slice_ids) return number_slices(stage);
    if (stage.kind == StageKind::count) {
      rows_[stage.out] = row0_ == 0 ? count_choices(op_, data_, stage) : Rows(0, 1);
      return;
    }
    const Rows& x = rows_of(stage.in[0]);
    if (stage.kind == StageKind::permute) {  // as they are
      rows_[stage.out] = routed_.permuted(stage, x);
      return;
    }
    const Tensor& made = op_.tensor(stage.out);
    Rows rows;
    if (stage.kind == StageKind::gemm) {
      const int64_t shares = made.held == Held::partial ? op_.team_ranks(made) : 1;
      rows = gemm_rows(op_, data_, x, stage.in[1], PartialSums(shares, roundings_));
    } else if (stage.kind == StageKind::grouped) {
      rows = routed_.grouped(stage, x, made.held == Held::partial ? op_.ranks : 1);
    } else if (stage.kind == StageKind::weigh) {
      rows = routed_.weigh(stage, x, rows_of(stage.in[2]));
    } else if (stage.kind == StageKind::slice_weights) {
      rows = repeat_cols(x, stage.slices);
    } else if (weighs_experts(stage.kind)) {
      rows = weigh_choices(stage, op_.dtype, x, rows_of(stage.in[1]));
    } else {
      rows = stage_rows(stage, op_.dtype, x, stage.in.size() > 1 ? &rows_of(stage.in[1]) : nullptr);
    }
    store(stage, std::move(rows));
  }

  void choose(const Stage& stage) {
    const Rows& scores = rows_of(stage.in[0]);
    ChosenRows chosen =
        choose_experts(stage, scores, stage.in.size() > 1 ? &rows_of(stage.in[1]) : nullptr);
    is_unsure_.resize(chosen.is_sure.size(), false);
    for (size_t row = 0; row < is_unsure_.size(); ++row) {
      if (!chosen.is_sure[row]) is_unsure_[row] = true;
    }
    routed_.set_ids(stage.out, chosen.ids);
    rows_[stage.out] = std::move(chosen.ids);
  }

  void number_slices(const Stage& stage) {
    Rows ids = slices_of(rows_of(stage.in[0]), stage.experts, stage.slices);
    routed_.set_ids(stage.out, ids);
    rows_[stage.out] = std::move(ids);
  }

  bool is_count(int tensor) const {
    const int made_by = op_.tensor(tensor).stage;
    return made_by >= 0 && op_.stage(made_by).kind == StageKind::count;
  }

  // Rows that an infinity may have come into may be anything. Where bounds are as large as the
  // values themselves, they say nothing.
  static void allow_lost(const Rows& rows, ExpectedRows& expected) {
    constexpr double kLeast = 0x1p-48;  // the square of the least number of fp16, 2^-24
    for (int64_t row = 0; row < rows.rows; ++row) {
      const auto first = expected.bounds.begin() + static_cast<std::ptrdiff_t>(rows.at(row, 0));
      const bool is_lost = !rows.is_lost.empty() && rows.is_lost[static_cast<size_t>(row)];
      if (is_lost) {
        std::fill(first, first + rows.cols, std::numeric_limits<double>::infinity());
      }
      double values = 0, errors = 0;
      for (int64_t col = 0; col < rows.cols; ++col) {
        const double value = rows.values[rows.at(row, col)], error = rows.errors[rows.at(row, col)];
        values += value * value;
        errors += error * error;
      }
      // Zeros that only rounding to the least number can have moved are told from all others.
      const bool are_zeros = values == 0 && errors <= static_cast<double>(rows.cols) * kLeast;
      if (is_lost || (errors > values && !are_zeros)) ++expected.unjudged;
    }
  }

  // Rows whose experts no two implementations must agree on may be anything.
  void allow_others(ExpectedRows& rows, int64_t each) const {
    const auto known = static_cast<size_t>((rows.row1 - rows.row0) / each);
    for (size_t row = 0; row < std::min(known, is_unsure_.size()); ++row) {
      if (!is_unsure_[row]) continue;
      const auto count = static_cast<std::ptrdiff_t>(each * rows.cols);
      const auto first = rows.bounds.begin() + static_cast<std::ptrdiff_t>(row) * count;
      std::fill(first, first + count, std::numeric_limits<double>::infinity());
    }
  }

  void store(const Stage& stage, Rows rows) {
    if (is_stored(stage.out)) {
      round_rows(op_.tensor(stage.out).dtype, stage.out, rows);
    } else if (roundings_.kept != DType::fp32) {
      round_rows(roundings_.kept, stage.out, rows);
    }
    rows_[stage.out] = std::move(rows);
  }

  // What follows a product tile by tile takes its sums as they are, or as they are kept.
  bool is_stored(int tensor) const {
    for (const OperatorSegment& segment : op_.segments) {
      if (!segment.product) continue;
      for (const int id : segment.stages) {
        if (op_.stage(id).out != tensor) continue;
        return tensor == segment.result || is_weighed(tensor);
      }
    }
    return true;
  }

  bool is_weighed(int tensor) const {
    return std::any_of(op_.stages.begin(), op_.stages.end(), [&](const Stage& stage) {
      return stage.kind == StageKind::weigh && stage.in[0] == tensor;
    });
  }

  const Operator& op_;
  const InputData& data_;
  const Roundings& roundings_;
  const int64_t row0_, row1_;
  RoutedRows routed_;
  std::map<int, Rows> rows_;  // by tensor
  std::vector<bool> is_unsure_;
};

}  // namespace

std::vector<ExpectedRows> expected_outputs(const Operator& op, const InputData& data,
                                           const Roundings& roundings, int64_t row0, int64_t row1) {
  if (const Segment* only = op.only_product(); only != nullptr && op.stages.size() == 1) {
    return {expected_rows(*only, data, roundings, row0, row1)};
  }
  return StageByStage(op, data, roundings, row0, row1).run();
}

int64_t rows_to_expect(const Operator& op) {
  int64_t most = 1;  // counts come with the first row
  for (const OperatorOutput& output : op.outputs) {
    const Tensor& of = op.tensor(output.tensor);
    if (of.stage >= 0 && op.stage(of.stage).kind == StageKind::count) continue;
    most = std::max(most, of.rows / rows_each(op, output.tensor));
  }
  return most;
}

}  // namespace stretto

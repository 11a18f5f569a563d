#include "op/input_sizes.h"

#include <algorithm>
#include <cmath>

#include "op/stages/stage_row.h"

namespace stretto {
namespace {

constexpr int kNonzeros = 32;    // of a row of a weight, at most
constexpr double kIntegers = 8;  // about the size of what is no integer any more

class SizesOfGraph {
 public:
  explicit SizesOfGraph(Operator& op) : op_(op), sizes_(op.tensors.size()) {
    for (size_t i = 0; i < sizes_.size(); ++i) {
      if (is_index(op.tensors[i].dtype)) sizes_[i] = {1, 1, true};
    }
    for (const Stage& stage : op.stages) {
      // A first operand that the caller gives has integers of magnitude 1 and 2.
      ValueSizes& x = sizes_[static_cast<size_t>(stage.in[0])];
      if (multiplies(stage.kind) && op.tensor(stage.in[0]).stage < 0) x.integer = 1.6;
      sizes_[static_cast<size_t>(stage.out)] = made_by(stage, x);
    }
  }

 private:
  ValueSizes made_by(const Stage& stage, const ValueSizes& x) {
    const ValueSizes y =
        stage.in.size() > 1 ? sizes_[static_cast<size_t>(stage.in[1])] : ValueSizes();
    if (multiplies(stage.kind)) return product(stage, x);
    if (stage.kind == StageKind::weigh) {
      return {x.random, x.integer * weighed(stage), x.is_exact && is_given(stage.in[2])};
    }
    const StageRow& row = row_of(stage.kind);
    if (row.sizes == nullptr) return {1, 1, false};
    return row.sizes(x, y, stage.in.size() > 1 && stage.in[0] == stage.in[1]);
  }

  bool is_given(int tensor) const { return op_.tensor(tensor).stage < 0; }

  // What integers grow by: a gate's weights add up to 1, and the caller's are 1 and 2.
  double weighed(const Stage& weigh) const {
    const int weights = weigh.in[2];
    return is_given(weights) ? 1.6 * std::sqrt(static_cast<double>(op_.tensor(weights).cols)) : 1;
  }

  // Of a product's result, until it is a tensor that is stored as a sum.
  double growth_behind(const Stage& product) const {
    for (const Stage& stage : op_.stages) {
      if (stage.kind == StageKind::weigh && stage.in[0] == product.out) return weighed(stage);
    }
    return 1;
  }

  ValueSizes product(const Stage& stage, const ValueSizes& x) const {
    Tensor& weight = op_.tensors[static_cast<size_t>(stage.in[1])];
    const auto cols = static_cast<double>(weight.cols);
    if (weight.values.nonzeros == 0) {
      weight.values.scale = static_cast<float>(1 / (x.random * std::sqrt(cols)));
      set_integers(weight, x, growth_behind(stage));
    }
    const WeightValues& values = weight.values;
    return {x.random * values.scale * std::sqrt(cols),
            x.integer * values.integer_scale * std::sqrt(static_cast<double>(values.nonzeros)),
            x.is_exact && values.integer_scale == 1};
  }

  // Sums of integers are exact in the type while they are below `most`, ten of which are never
  // seen. They stay so in as many products as there are, if rows of weights have few of them.
  void set_integers(Tensor& weight, const ValueSizes& x, double growth) const {
    const double most = 0.1 / unit_roundoff(op_.dtype) / growth;
    WeightValues& values = weight.values;
    values.nonzeros = static_cast<int>(std::min<int64_t>(weight.cols, kNonzeros));
    if (x.is_exact && x.integer <= 4 * most) {
      const double affordable = most / x.integer * (most / x.integer);
      if (affordable < values.nonzeros) values.nonzeros = std::max(1, static_cast<int>(affordable));
      return;
    }
    const double size = x.integer * std::sqrt(static_cast<double>(values.nonzeros));
    values.integer_scale = std::exp2(static_cast<float>(std::round(std::log2(kIntegers / size))));
  }

  Operator& op_;
  std::vector<ValueSizes> sizes_;  // by tensor
};

}  // namespace

void set_input_sizes(Operator& op) { SizesOfGraph{op}; }

}  // namespace stretto

// StageRow: all that distinguishes one kind of stage from another, as one row. Graphs, the
// reference, lowering and the reference on GPUs ask the row. A kind is a line of STRETTO_STAGES
// (operator.h) and a row beside its rules in this folder: without one nothing links.
#pragma once

#include <optional>
#include <span>

#include "op/rows.h"
#include "op/stage_rules.h"
#include "stretto/device/test_data.h"
#include "stretto/plan.h"

namespace stretto {

struct StageOperands {
  const Stage& stage;
  std::span<const Tensor* const> in;
  int ranks;
  DType dtype;  // the operator's
};

// How large a tensor's elements are in tests, random ones and integers: the roots of their mean
// squares. `is_exact`: integers stay integers.
struct ValueSizes {
  double random = 1;
  double integer = 2.6;  // from -4 to 4
  bool is_exact = true;
};

inline ValueSizes size_of_first(const ValueSizes& x, const ValueSizes&, bool) { return x; }

struct StageRow {
  // How its operands must be held, and its result then is.
  StageRule (*rule)(const StageOperands& of);
  // The task that it becomes; none where that hangs on where its rows are.
  std::optional<Opcode> task;
  // Of what goes by rows, but products: the exact result of exact operands, and how far a right
  // one may be from it. `out` has what is said of all elements of both.
  void (*make)(const Stage& stage, DType dtype, const Rows& x, const Rows* y, Rows& out) = nullptr;
  // How large its result is; `same`: it takes one tensor twice. Null: about 1, and no integers.
  // Those of products, and of what weighs their results, hang on the graph (input_sizes.cpp).
  ValueSizes (*sizes)(const ValueSizes& x, const ValueSizes& y, bool same) = nullptr;
  // What computes it of whole tensors on a GPU, to judge and time runs; none: nothing does.
  std::optional<device::StageOf> on_gpus = {};

  bool has_parameter = false;    // its second operand goes with all rows of the first
  bool follows_tiles = false;    // it can take a product's tile where this is made
  bool is_of_all_ranks = false;  // not of teams
};

const StageRow& row_of(StageKind kind);

// One row each, in the file of its rules.
namespace stages {
#define STRETTO_ROW(name, ...) extern const StageRow name;
STRETTO_STAGES(STRETTO_ROW)
#undef STRETTO_ROW
}  // namespace stages

}  // namespace stretto

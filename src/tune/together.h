// Operators of several products: whether what is fastest for each of them is so for all.
#pragma once

#include <algorithm>

#include "schedule/few_rows.h"
#include "schedule/legal_rules.h"
#include "stretto/tune.h"
#include "tune/predict.h"

namespace stretto {

// What two weights of a gate make tile beside tile takes as long as one weight of all their
// columns.
inline Segment of_one_weight(Segment product) {
  product.n *= product.weights;
  product.weights = 1;
  return product;
}

// What was chosen of one weight, for a product that may have two: tiles have half of each, and
// cuBLAS multiplies these where the kernel of few rows takes more rows of one.
inline Schedule for_weights_of(const Segment& product, Schedule chosen) {
  if (product.weights > 1) chosen.tile_n = std::max(chosen.tile_n, 2 * kMinTile);
  const bool few = chosen.gemm == GemmBy::few_rows;
  if (few && !why_no_few_rows(product).empty()) chosen.gemm = GemmBy::library;
  return chosen;
}

// `alone`, or what is clearly faster by simulation and by what is known of each product alone: a
// preset for all products, or, with fixed rows, of each product what `alone` or a preset has for
// it, what takes it hardly longer alone, or, of a gate's, tiles in phases. `alone` was chosen
// product by product, by measurements too, and stays where it is near.
AutoSchedules fastest_together(const Operator& op, const Machine& machine, const Tuning& tuning,
                               RowCount rows, AutoSchedules alone, Predictions& predictions);

}  // namespace stretto

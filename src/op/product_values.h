// What a product makes of rows: exact sums, and the statistics of an implementation's errors.
#pragma once

#include <cstdint>

#include "op/rows.h"
#include "stretto/operator.h"
#include "stretto/reference.h"

namespace stretto {

// What becomes of the sums that ranks have of their terms, until they are one.
struct PartialSums {
  int64_t shares = 1;           // ranks that have terms
  DType dtype = DType::fp32;    // in which they store or send them
  double stored = 0, sent = 0;  // how often each is rounded to it alone, and sums of some of them
  bool are_weighed = false;     // before they are sent: who adds them up counts roundings

  // As an implementation's `roundings` say, where ranks have terms.
  PartialSums(int64_t num_shares, const Roundings& roundings);
};

// Times a matrix of a stack, from row `b_row` of all of them on.
Rows gemm_rows(const Operator& op, const InputData& data, const Rows& a, int b,
               const PartialSums& partials, int64_t b_row = 0);

}  // namespace stretto

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "stretto/reference.h"

namespace stretto {
namespace {

struct Inputs {
  std::vector<float> a, b;  // [m, k], [n, k]
};

Inputs make_inputs(const Segment& op, const InputData& data) {
  Inputs in{std::vector<float>(static_cast<size_t>(op.m * op.k)),
            std::vector<float>(static_cast<size_t>(op.n * op.k))};
  const auto k = static_cast<size_t>(op.k);
  for (size_t i = 0; i < static_cast<size_t>(op.m); ++i) {
    fill_input(op, data, Input::a, static_cast<int64_t>(i), 0, {in.a.data() + i * k, k});
  }
  for (size_t i = 0; i < static_cast<size_t>(op.n); ++i) {
    fill_input(op, data, Input::b, static_cast<int64_t>(i), 0, {in.b.data() + i * k, k});
  }
  return in;
}

// To nearest even with `bits` bits of significand, ranges aside.
float round_to(float value, int bits) {
  if (value == 0) return 0;
  int exponent = 0;
  std::frexp(value, &exponent);
  const double scaled = std::ldexp(static_cast<double>(value), bits - exponent);
  return static_cast<float>(std::ldexp(std::nearbyint(scaled), exponent - bits));
}
int bits_of(DType dtype) { return dtype == DType::bf16 ? 8 : dtype == DType::fp16 ? 11 : 24; }

// As a GPU does it: fp32 sums rank by rank, partial sums rounded, added in rank order, rounded.
float compute(const Segment& op, const Inputs& in, DType partials, int64_t i, int64_t j,
              int skipped_rank = -1) {
  float sum = 0;
  const int64_t share = op.k / op.ranks;
  for (int rank = 0; rank < op.ranks; ++rank) {
    if (rank == skipped_rank) continue;
    float partial = 0;
    for (int64_t t = rank * share; t < (rank + 1) * share; ++t) {
      partial += in.a[static_cast<size_t>(i * op.k + t)] * in.b[static_cast<size_t>(j * op.k + t)];
    }
    sum += round_to(partial, bits_of(partials));
  }
  return round_to(sum, bits_of(op.dtype));
}

TEST(ExpectedRows, IntegersAreExactInEveryTypeAndOrder) {
  for (const DType dtype : {DType::bf16, DType::fp16, DType::fp32}) {
    const Segment op{kGemmRs, 21, 19, 120, 4, dtype};
    const InputData data{Fill::integers, 9};
    const Inputs in = make_inputs(op, data);
    const ExpectedRows expected = expected_rows(op, data, {dtype, 1}, 0, op.m);
    for (int64_t i = 0; i < op.m; ++i) {
      for (int64_t j = 0; j < op.n; ++j) {
        EXPECT_EQ(expected.value(i, j), compute(op, in, dtype, i, j));
        EXPECT_EQ(expected.bound(i, j), 0);
      }
    }
  }
}

TEST(ExpectedRows, RandomResultsLieWithinTheBoundInEveryType) {
  for (const DType dtype : {DType::bf16, DType::fp16, DType::fp32}) {
    for (const DType partials : {dtype, DType::fp32}) {
      const Segment op{kGemmAr, 33, 41, 1024, 8, dtype};
      const InputData data{Fill::random, 9};
      const Inputs in = make_inputs(op, data);
      const ExpectedRows expected = expected_rows(op, data, {partials, 1}, 0, op.m);
      double worst = 0;
      for (int64_t i = 0; i < op.m; ++i) {
        for (int64_t j = 0; j < op.n; ++j) {
          const double error = std::fabs(expected.value(i, j) - compute(op, in, partials, i, j));
          worst = std::max(worst, error / expected.bound(i, j));
        }
      }
      EXPECT_LE(worst, 1);
      if (dtype != DType::fp32) {
        EXPECT_GE(worst, 0.1) << "the bound is needlessly wide";
      }
    }
  }
}

TEST(ExpectedRows, AMissingPartialExceedsTheBoundInAnyTile) {
  const Segment op{kGemmRs, 8, 16, 4096, 8, DType::bf16};
  const InputData data{Fill::random, 4};
  const Inputs in = make_inputs(op, data);
  // Even when every hop of a ring may round.
  const ExpectedRows expected = expected_rows(op, data, {DType::bf16, 8}, 0, op.m);
  for (int skipped = 0; skipped < op.ranks; ++skipped) {
    int wrong = 0;
    for (int64_t i = 0; i < op.m; ++i) {
      for (int64_t j = 0; j < op.n; ++j) {
        const double got = compute(op, in, DType::bf16, i, j, skipped);
        wrong += std::fabs(got - expected.value(i, j)) > expected.bound(i, j) ? 1 : 0;
      }
    }
    EXPECT_GT(wrong, op.m * op.n / 2);
  }
}

TEST(ExpectedRows, RowsDoNotDependOnWhichAreAskedFor) {
  for (const Fill fill : {Fill::integers, Fill::random}) {
    const Segment op{kAgGemm, 300, 515, 70, 5, DType::bf16};
    const ExpectedRows whole = expected_rows(op, {fill, 2}, {}, 0, op.m);
    const ExpectedRows part = expected_rows(op, {fill, 2}, {}, 255, 259);
    for (int64_t i = 255; i < 259; ++i) {
      for (int64_t j = 0; j < op.n; ++j) {
        EXPECT_EQ(part.value(i, j), whole.value(i, j));
        EXPECT_EQ(part.bound(i, j), whole.bound(i, j));
      }
    }
    EXPECT_TRUE(expected_rows(op, {fill, 2}, {}, 300, 300).values.empty());
  }
}

TEST(ExpectedRows, DistinctRowsAndColumnsGiveDistinctOutputs) {
  const Segment op{kGemmRs, 256, 64, 512, 8, DType::bf16};
  const ExpectedRows expected = expected_rows(op, {Fill::integers, 1}, {}, 0, op.m);
  for (int64_t i = 0; i < op.m; ++i) {
    for (int64_t other = i + 1; other < op.m; ++other) {
      int same = 0;
      for (int64_t j = 0; j < op.n; ++j) {
        same += expected.value(i, j) == expected.value(other, j) ? 1 : 0;
      }
      EXPECT_LT(same, 16) << "rows " << i << " and " << other;
    }
  }
}

}  // namespace
}  // namespace stretto

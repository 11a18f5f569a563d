#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <set>
#include <vector>

#include "stretto/reference.h"

namespace stretto {
namespace {

Segment gemm_rs(int64_t m, int64_t n, int64_t k, DType dtype = DType::bf16) {
  return {kGemmRs, m, n, k, 1, dtype};
}

std::vector<float> row_of(const Segment& op, const InputData& data, Input input, int64_t row) {
  std::vector<float> values(static_cast<size_t>(op.k));
  fill_input(op, data, input, row, 0, values);
  return values;
}

bool representable(float value, DType dtype) {
  const int bits = dtype == DType::bf16 ? 8 : dtype == DType::fp16 ? 11 : 24;
  if (value == 0) return true;
  int exponent = 0;
  std::frexp(value, &exponent);
  int step = exponent - bits;
  if (dtype == DType::fp16) step = std::max(step, -24);
  const double scaled = std::ldexp(static_cast<double>(value), -step);
  return scaled == std::rint(scaled);
}

TEST(Input, AnyPieceOfARowIsTheSame) {
  for (const Fill fill : {Fill::integers, Fill::random, Fill::subnormals}) {
    for (const Input input : {Input::a, Input::b}) {
      const Segment op = gemm_rs(10, 10, 100);
      const InputData data{fill, 42};
      const std::vector<float> whole = row_of(op, data, input, 7);
      std::vector<float> piece(30);
      fill_input(op, data, input, 7, 55, piece);
      for (size_t i = 0; i < piece.size(); ++i) EXPECT_EQ(piece[i], whole[55 + i]);
      for (size_t i = 0; i < whole.size(); ++i) {
        EXPECT_EQ(input_value(op, data, input, 7, static_cast<int64_t>(i)), whole[i]);
      }
    }
  }
}

TEST(Input, IntegersKeepEverySumExactInBf16) {
  for (const int64_t k : {1, 2, 31, 32, 33, 100, 4096, 28672}) {
    const Segment op = gemm_rs(8, 8, k);
    double largest_a = 0;  // of the sum of the magnitudes of a row
    for (int64_t row = 0; row < 8; ++row) {
      double sum = 0;
      for (const float value : row_of(op, {Fill::integers, 3}, Input::a, row)) {
        EXPECT_EQ(value, std::rint(value));
        EXPECT_LE(std::fabs(value), 2);
        sum += std::fabs(value);
      }
      EXPECT_GE(sum, static_cast<double>(std::min<int64_t>(k, 32)));
      largest_a = std::max(largest_a, sum);
      for (const float value : row_of(op, {Fill::integers, 3}, Input::b, row)) {
        EXPECT_EQ(value, std::rint(value));
        EXPECT_LE(std::fabs(value), 4);
      }
    }
    EXPECT_LE(largest_a * 4, 256);
  }
}

TEST(Input, EveryColumnOfKCountsForSomeRow) {
  const Segment op = gemm_rs(400, 8, 256);
  std::vector<double> uses(256);
  for (int64_t row = 0; row < op.m; ++row) {
    const std::vector<float> values = row_of(op, {Fill::integers, 1}, Input::a, row);
    for (size_t i = 0; i < values.size(); ++i) uses[i] += std::fabs(values[i]);
  }
  for (const double use : uses) EXPECT_GT(use, 0);
}

TEST(Input, RowsTensorsAndSeedsDiffer) {
  for (const Fill fill : {Fill::integers, Fill::random}) {
    const Segment op = gemm_rs(100, 100, 64);
    std::set<std::vector<float>> rows;
    for (uint64_t seed : {1, 2, 3}) {
      for (const Input input : {Input::a, Input::b}) {
        for (int64_t row = 0; row < 100; ++row) {
          rows.insert(row_of(op, {fill, seed}, input, row));
        }
      }
    }
    EXPECT_EQ(rows.size(), 600u);
  }
}

TEST(Input, RandomValuesAreNormalAndRepresentable) {
  for (const DType dtype : {DType::bf16, DType::fp16, DType::fp32}) {
    const Segment op = gemm_rs(1, 1, 200000, dtype);
    const std::vector<float> values = row_of(op, {Fill::random, 5}, Input::a, 0);
    double sum = 0, squares = 0, within_one = 0;
    for (const float value : values) {
      ASSERT_TRUE(representable(value, dtype)) << value << " in " << to_string(dtype);
      ASSERT_LT(std::fabs(value), 3.5f);
      sum += value;
      squares += static_cast<double>(value) * value;
      within_one += std::fabs(value) < 1 ? 1 : 0;
    }
    const double count = static_cast<double>(values.size());
    EXPECT_NEAR(sum / count, 0, 0.01);
    EXPECT_NEAR(squares / count, 1, 0.01);
    EXPECT_NEAR(within_one / count, 0.683, 0.02);
  }
}

TEST(Input, SubnormalsAreSubnormalInTheirType) {
  for (const DType dtype : {DType::bf16, DType::fp16, DType::fp32}) {
    const Segment op = gemm_rs(4, 4, 1000, dtype);
    const float smallest_normal = dtype == DType::fp16 ? 0x1p-14f : 0x1p-126f;
    int zeros = 0;
    for (int64_t row = 0; row < 4; ++row) {
      for (const float value : row_of(op, {Fill::subnormals, 5}, Input::a, row)) {
        EXPECT_LT(std::fabs(value), smallest_normal);
        EXPECT_TRUE(representable(value, DType::fp32));
        zeros += value == 0;
      }
    }
    EXPECT_LT(zeros, 400) << "bf16 has 7 bits there";
    EXPECT_EQ(row_of(op, {Fill::subnormals, 5}, Input::b, 0),
              row_of(op, {Fill::random, 5}, Input::b, 0));
  }
}

// The same as integers, but for a few places; pieces of a row agree with the whole.
TEST(Input, SpecialsAreIntegersWithInfinitiesAndNansAmongThem) {
  const Segment op = gemm_rs(400, 400, 100);
  int infinities[2] = {}, nans[2] = {}, rows[2] = {};
  for (const Input input : {Input::a, Input::b}) {
    const auto of = static_cast<size_t>(input);
    for (int64_t row = 0; row < 400; ++row) {
      const std::vector<float> integers = row_of(op, {Fill::integers, 9}, input, row);
      const std::vector<float> specials = row_of(op, {Fill::specials, 9}, input, row);
      int found = 0;
      for (size_t col = 0; col < specials.size(); ++col) {
        infinities[of] += std::isinf(specials[col]);
        nans[of] += std::isnan(specials[col]);
        found += !std::isfinite(specials[col]);
        if (std::isfinite(specials[col])) {
          EXPECT_EQ(specials[col], integers[col]);
        }
      }
      EXPECT_LE(found, 2);
      rows[of] += found > 0;
      std::vector<float> piece(40);
      fill_input(op, {Fill::specials, 9}, input, row, 30, piece);
      for (size_t i = 0; i < piece.size(); ++i) {
        EXPECT_TRUE(piece[i] == specials[30 + i] || std::isnan(piece[i] + specials[30 + i]));
      }
    }
  }
  EXPECT_NEAR(rows[0], 200, 50);
  EXPECT_NEAR(rows[1], 25, 20);
  for (const size_t of : {0, 1}) EXPECT_GT(infinities[of], nans[of]);
  EXPECT_GT(nans[0], 0);
}

TEST(Slices, CoverInputsAndOutputsAsTheOperatorsSay) {
  const Segment ag{kAgGemm, 10, 12, 6, 4, DType::bf16};
  EXPECT_EQ(input_slice(ag, Input::a, 1), (Slice{3, 6, 0, 6}));
  EXPECT_EQ(input_slice(ag, Input::a, 3), (Slice{9, 10, 0, 6}));
  EXPECT_EQ(input_slice(ag, Input::b, 1), (Slice{3, 6, 0, 6}));
  EXPECT_EQ(output_slice(ag, 3), (Slice{0, 10, 9, 12}));
  const Segment rs{kGemmRs, 10, 12, 8, 4, DType::bf16};
  EXPECT_EQ(input_slice(rs, Input::a, 1), (Slice{0, 10, 2, 4}));
  EXPECT_EQ(input_slice(rs, Input::b, 3), (Slice{0, 12, 6, 8}));
  EXPECT_EQ(output_slice(rs, 3), (Slice{9, 10, 0, 12}));
  const Segment ar{kGemmAr, 10, 12, 8, 4, DType::bf16};
  EXPECT_EQ(input_slice(ar, Input::a, 1), input_slice(rs, Input::a, 1));
  EXPECT_EQ(output_slice(ar, 2), (Slice{0, 10, 0, 12}));
  const Segment heads{kGemmA2a, 10, 12, 6, 4, DType::bf16};
  EXPECT_EQ(input_slice(heads, Input::a, 3), (Slice{9, 10, 0, 6}));
  EXPECT_EQ(input_slice(heads, Input::b, 1), (Slice{0, 12, 0, 6}));
  EXPECT_EQ(output_slice(heads, 1), (Slice{0, 10, 3, 6}));
  const Segment tokens{kA2aGemm, 10, 5, 8, 4, DType::bf16};
  EXPECT_EQ(input_slice(tokens, Input::a, 1), (Slice{0, 10, 2, 4}));
  EXPECT_EQ(input_slice(tokens, Input::b, 2), (Slice{0, 5, 0, 8}));
  EXPECT_EQ(output_slice(tokens, 3), (Slice{9, 10, 0, 5}));
}

}  // namespace
}  // namespace stretto

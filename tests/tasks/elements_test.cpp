#include "tasks/elements.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace stretto::tasks {
namespace {

template <class To, class From>
To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof(to));
  return to;
}

uint16_t round_one(DType dtype, float value) {
  uint16_t result = 0;
  round_elements(dtype, &value, &result, 1);
  return result;
}

float widen_one(DType dtype, uint16_t bits) {
  float value = 0;
  widen(dtype, &bits, &value, 1);
  return value;
}

// By arithmetic, not by bits: sign * significand * 2^exponent.
double meaning(DType dtype, uint16_t bits) {
  const int fraction_bits = dtype == DType::bf16 ? 7 : 10;
  const int exponent_bits = 15 - fraction_bits;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (bits >> fraction_bits) & ((1 << exponent_bits) - 1);
  const int fraction = bits & ((1 << fraction_bits) - 1);
  const double sign = bits >> 15 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) {
    return fraction ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  }
  const double significand = exponent ? fraction + (1 << fraction_bits) : fraction;
  return sign * std::ldexp(significand, std::max(exponent, 1) - bias - fraction_bits);
}

class Elements : public testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(, Elements, testing::Values(DType::bf16, DType::fp16),
                         [](const auto& param_info) {
                           return std::string(to_string(param_info.param));
                         });

TEST_P(Elements, EveryValueWidensAndComesBack) {
  std::vector<uint16_t> all(65536), back(65536);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
  std::vector<float> wide(all.size());
  widen(GetParam(), all.data(), wide.data(), all.size());
  round_elements(GetParam(), wide.data(), back.data(), wide.size());
  for (size_t i = 0; i < all.size(); ++i) {
    const double value = meaning(GetParam(), all[i]);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(wide[i])) << i;
      EXPECT_TRUE(std::isnan(meaning(GetParam(), back[i]))) << i;
    } else {
      ASSERT_EQ(static_cast<double>(wide[i]), value) << i;
      ASSERT_EQ(back[i], all[i]) << i;
    }
  }
}

TEST_P(Elements, RoundsToNearestTiesToEven) {
  const DType dtype = GetParam();
  const int last = dtype == DType::bf16 ? 0x7F7F : 0x7BFF;  // the largest finite value
  for (int bits = 0; bits < last; ++bits) {
    const auto low = static_cast<uint16_t>(bits), high = static_cast<uint16_t>(bits + 1);
    const float middle = static_cast<float>((meaning(dtype, low) + meaning(dtype, high)) / 2);
    if (static_cast<double>(middle) * 2 != meaning(dtype, low) + meaning(dtype, high)) {
      continue;  // below fp32's own range
    }
    ASSERT_EQ(round_one(dtype, middle), bits % 2 ? high : low) << bits;
    ASSERT_EQ(round_one(dtype, -middle), (bits % 2 ? high : low) | 0x8000) << bits;
    ASSERT_EQ(round_one(dtype, std::nextafter(middle, 0.0f)), low) << bits;
    ASSERT_EQ(round_one(dtype, std::nextafter(middle, HUGE_VALF)), high) << bits;
  }
}

TEST_P(Elements, OverflowAndSpecials) {
  const DType dtype = GetParam();
  const uint16_t infinity = dtype == DType::bf16 ? 0x7F80 : 0x7C00;
  const float largest = widen_one(dtype, static_cast<uint16_t>(infinity - 1));
  const float spacing = largest - widen_one(dtype, static_cast<uint16_t>(infinity - 2));
  EXPECT_EQ(round_one(dtype, largest), infinity - 1);
  if (dtype == DType::fp16) {
    EXPECT_EQ(round_one(dtype, largest + spacing / 2), infinity);
    EXPECT_EQ(round_one(dtype, largest + spacing / 4), infinity - 1);
    EXPECT_EQ(round_one(dtype, 1e30f), infinity);
    EXPECT_EQ(round_one(dtype, 1e-30f), 0);
  }
  EXPECT_EQ(round_one(dtype, std::numeric_limits<float>::max()), infinity);
  EXPECT_EQ(round_one(dtype, -std::numeric_limits<float>::infinity()), infinity | 0x8000);
  EXPECT_EQ(round_one(dtype, -0.0f), 0x8000);
  // A NaN whose payload lies below the bits that are kept must not become an infinity.
  EXPECT_TRUE(std::isnan(widen_one(dtype, round_one(dtype, bits_as<float>(0x7F800001u)))));
  EXPECT_TRUE(std::isnan(widen_one(dtype, round_one(dtype, bits_as<float>(0xFFFFFFFFu)))));
}

TEST_P(Elements, AddsInFp32) {
  for (const size_t count : {1u, 7u, 16u, 45u}) {
    std::vector<uint16_t> terms(count + 1);
    std::vector<float> sums(count + 1), expected(count + 1);
    std::mt19937 random(5);
    for (size_t i = 0; i <= count; ++i) {
      terms[i] = round_one(GetParam(), std::normal_distribution<float>()(random));
      sums[i] = expected[i] = std::normal_distribution<float>()(random);
      if (i < count) expected[i] += widen_one(GetParam(), terms[i]);
    }
    add_elements(GetParam(), terms.data(), sums.data(), count);
    EXPECT_EQ(sums, expected) << count;  // and the one after the last is untouched
  }
}

TEST(Poison, IsANanOfEveryType) {
  for (const DType dtype : {DType::bf16, DType::fp16, DType::fp32}) {
    unsigned char bytes[5 * 4];
    float values[5];
    fill_poison(dtype, bytes, 5);
    widen(dtype, bytes, values, 5);
    for (const float value : values) EXPECT_TRUE(std::isnan(value)) << to_string(dtype);
  }
}

}  // namespace
}  // namespace stretto::tasks

// Elements as the emulator widens, rounds and adds them, which is as the GPU does.
#include "stretto/device/elements.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "stretto/device/sums.h"

namespace stretto::device {
namespace {

bool is_nan(float value) { return std::isnan(value); }

template <class Half>
void expect_every_value_to_stay() {
  for (uint32 bits = 0; bits <= 0xffffu; ++bits) {
    const float value = Half::widen(bits);
    if (is_nan(value)) {
      EXPECT_TRUE(is_nan(Half::widen(Half::round(value)))) << bits;
    } else {
      ASSERT_EQ(Half::round(value), bits);
    }
  }
}

TEST(ElementsTest, EveryHalfWidensAndRoundsToItself) {
  expect_every_value_to_stay<Bf16>();
  expect_every_value_to_stay<Fp16>();
}

// Between two neighbours of every size: what is nearer, and the even one of two that are as near.
template <class Half>
void expect_ties_to_even(uint32 infinity) {
  for (uint32 bits = 0; bits + 1 < infinity; ++bits) {
    const double low = double(Half::widen(bits)), high = double(Half::widen(bits + 1));
    const auto middle = static_cast<float>((low + high) / 2);
    ASSERT_EQ(Half::round(middle), bits + bits % 2);
    ASSERT_EQ(Half::round(std::nextafter(middle, 0.0f)), bits);
    ASSERT_EQ(Half::round(std::nextafter(middle, INFINITY)), bits + 1);
    ASSERT_EQ(Half::round(-middle), 0x8000u | (bits + bits % 2));
  }
}

TEST(ElementsTest, RoundsToNearestTiesToEven) {
  expect_ties_to_even<Fp16>(0x7c00);
  for (uint32 low : {0x3f80u, 0x3f81u, 0x4049u}) {
    const float middle = float_of_bits(low << 16 | 0x8000u);
    EXPECT_EQ(Bf16::round(middle), low + low % 2);
  }
}

TEST(ElementsTest, Fp16OverflowsToInfinityFromHalfAStepOn) {
  EXPECT_EQ(Fp16::round(65519.0f), 0x7bffu);
  EXPECT_EQ(Fp16::round(65520.0f), 0x7c00u);
  EXPECT_EQ(Fp16::round(-1e30f), 0xfc00u);
  EXPECT_EQ(Fp16::widen(0x7c00), INFINITY);
}

TEST(ElementsTest, NoCanonicalWordIsTheSentinel) {
  for (uint32 bits = 0; bits <= 0xffffu; ++bits) {
    const uint32 word = bits | 0x8000u << 16;
    EXPECT_NE(Bf16::canonical(word), Bf16x8::kPoison);
    EXPECT_NE(Fp16::canonical(word), Fp16x8::kPoison);
    if (is_nan(Fp16::low(word))) continue;
    EXPECT_EQ(Fp16::low(Fp16::canonical(word)), Fp16::low(word));
  }
}

// 1 is lost in 2^24 and not in 0: so the sum says in which order it was made.
TEST(ElementsTest, SourcesAreAddedInTheirOrder) {
  const float values[] = {16777216.0f, 1.0f, -16777216.0f, 1.0f, 4.0f};
  std::vector<int> asked;
  float sums[2 * Fp32x4::kElements] = {};
  add_sources<Fp32x4, 2, 2>(
      5,
      [&](int source, int v) -> Vec16 {
        asked.push_back(source * 2 + v);
        const uint32 bits = bits_of_float(values[source] * (v == 0 ? 1.0f : 2.0f));
        return {{bits, bits, bits, bits}};
      },
      sums);
  EXPECT_EQ(asked, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(sums[i], 5.0f);
    EXPECT_EQ(sums[4 + i], 10.0f);
  }
}

}  // namespace
}  // namespace stretto::device

#include <gtest/gtest.h>

#include "stretto/machine.h"

namespace stretto {
namespace {

TEST(RateCurve, IsFlatOutsideItsPoints) {
  const RateCurve curve{{{4, 100}, {16, 300}}};
  EXPECT_EQ(curve.at(1), 100);
  EXPECT_EQ(curve.at(4), 100);
  EXPECT_EQ(curve.at(16), 300);
  EXPECT_EQ(curve.at(1e12), 300);
}

TEST(RateCurve, IsLinearInTheLogarithmBetweenThem) {
  const RateCurve curve{{{4, 100}, {16, 300}, {64, 340}}};
  EXPECT_DOUBLE_EQ(curve.at(8), 200);
  EXPECT_DOUBLE_EQ(curve.at(32), 320);
}

TEST(RateCurve, OfOnePointIsThatPoint) {
  const RateCurve curve{{{2, 389}}};
  EXPECT_EQ(curve.at(1), 389);
  EXPECT_EQ(curve.at(3), 389);
}

}  // namespace
}  // namespace stretto

// What a benchmark keeps of a contestant's rounds.
#include <gtest/gtest.h>

#include "measure/operator_bench.h"

namespace stretto::runtime {
namespace {

TEST(SpreadOfRounds, IsTheMedianBetweenTheLeastAndTheMost) {
  const Spread odd = spread_of({30, 10, 25, 90, 20});
  EXPECT_EQ(odd.median, 25);
  EXPECT_EQ(odd.low, 10);
  EXPECT_EQ(odd.high, 90);
  EXPECT_EQ(spread_of({30, 10, 26, 20}).median, 23);
  EXPECT_EQ(spread_of({7}).median, 7);
}

}  // namespace
}  // namespace stretto::runtime
